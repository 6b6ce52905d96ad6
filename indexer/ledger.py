"""Ledger: one holder's side of the index; turns its events into blocks held and not held."""

from __future__ import annotations

from collections import Counter

from indexer.block import Holder, Identity, MediaIds
from indexer.events import AllBlocksCleared, BlockRemoved, BlockStored, Event, Reason
from indexer.hashing import block_hashes, root
from indexer.index import BlockIndex
from indexer.parking import Parking
from indexer.speculative import Speculative

FULL_PREFIX_KINDS = frozenset({"full_attention", "mla_attention", "sink_full_attention"})
"""Kinds of KV cache group in which holding a prefix is all that its reuse takes."""


class Ledger:
    """
    Attributes:
        refused: Why the engine is credited nothing, until it restarts; None if it is.
        block_size: Tokens per block as the engine last said; None before its first store.
        rejected: Events that did not count, by reason.
    """

    def __init__(self, holder: Holder, index: BlockIndex, guesses: Speculative) -> None:
        self.holder = holder
        self.refused: Reason | None = None
        self.block_size: int | None = None
        self.rejected: Counter[Reason] = Counter()
        self._index = index
        self._guesses = guesses
        self._parking = Parking()
        self._group: int | None = None
        self._suspended: set[object] = set()

    @property
    def parked_blocks(self) -> int:
        return self._parking.blocks

    def apply(self, event: Event, model: str) -> None:
        """Take in one event of a stream whose model is `model`."""
        match event:
            case BlockStored():
                self._stored(event, model)
            case BlockRemoved():
                self._removed(event)
            case AllBlocksCleared():
                self._cleared(event.tier)

    def drop(self) -> None:
        """Forget everything: the engine restarted or went away."""
        self._clear()
        self._group = self.refused = None
        self.resume(self)

    def suspend(self, cause: object) -> None:
        """Credit nothing until this cause is resumed; several streams may feed one holder."""
        self._suspended.add(cause)
        self._index.bits.suspend(self.holder)

    def resume(self, cause: object) -> None:
        self._suspended.discard(cause)
        if not self._suspended:
            self._index.bits.resume(self.holder)

    def _stored(self, event: BlockStored, model: str) -> None:
        reason = self._fault(event)
        if reason is not None:
            self.rejected[reason] += 1
        elif not event.tokens:
            for name in event.names:
                if not self._index.locate(self.holder, event.tier, name):
                    self.rejected[Reason.UNKNOWN_LOCATION] += 1
        elif event.parent is None:
            identity = Identity(model, event.lora, event.salt)
            self._place(event, root(identity, event.unnamed_adapter))
        else:
            parent = self._index.resolve(self.holder, event.parent)
            if parent is not None:
                self._place(event, parent)
            elif dropped := self._parking.park(event, event.parent):
                self.rejected[Reason.PARKED_OVERFLOW] += dropped

    def _removed(self, event: BlockRemoved) -> None:
        if self._parking.blocks:
            self._parking.remove(event.names)
        gone = self._index.remove(self.holder, event.tier, event.names)
        self._guesses.overrule(self.holder, gone)

    def _cleared(self, tier: str | None) -> None:
        if tier is None or set(self._index.blocks(self.holder)) <= {tier}:
            self._clear()
        else:
            self._parking.clear()
            self._guesses.overrule(self.holder, self._index.clear_tier(self.holder, tier))

    def _clear(self) -> None:
        self._parking.clear()
        self._guesses.forget(self.holder)
        self._index.clear(self.holder)

    def _place(self, event: BlockStored, parent: int) -> None:
        """Store blocks behind a known parent, then those that waited for them."""
        chains = self._store(event, parent)
        if not self._parking.blocks:
            return
        pending = [(event, chains)]
        while pending:
            event, chains = pending.pop()
            parts = event.block_size // self._index.block_size
            for name, chain in zip(event.names, chains[parts - 1 :: parts], strict=True):
                pending += [
                    (child, self._store(child, chain)) for child in self._parking.take(name)
                ]

    def _store(self, event: BlockStored, parent: int) -> list[int]:
        size = self._index.block_size
        media = _spread(event, size) if event.media else None
        chains = block_hashes(event.tokens, size, parent, media)
        self._index.store(self.holder, event.tier, event.names, chains)
        self._guesses.confirm(self.holder, chains)
        return chains

    def _fault(self, event: BlockStored) -> Reason | None:
        """Why a store does not count; None if it does."""
        if self.refused is not None:
            return self.refused
        if event.group_kind is not None and event.group_kind not in FULL_PREFIX_KINDS:
            return self._refuse(Reason.UNSUPPORTED_GROUP)
        if event.group != self._group and event.group is not None:
            if self._group is not None:
                return self._refuse(Reason.SEVERAL_GROUPS)
            self._group = event.group
        if not self._index.admits(event.tier):
            return Reason.TOO_MANY_TIERS
        if event.tokens:
            self.block_size = event.block_size
            if event.block_size % self._index.block_size:
                return Reason.BLOCK_SIZE_MISMATCH
        return None

    def _refuse(self, reason: Reason) -> Reason:
        """Credit the engine nothing, not even what it had: its groups are not understood."""
        self._clear()
        self.refused = reason
        self.suspend(self)
        return reason


def _spread(event: BlockStored, block_size: int) -> MediaIds:
    """The event's media by blocks of the index: on each part of a block that is split."""
    parts = event.block_size // block_size
    media = event.media or {}
    return {number * parts + part: ids for number, ids in media.items() for part in range(parts)}
