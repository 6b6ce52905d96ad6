"""Ledger: one holder's side of the index; turns its events into blocks held and not held."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from indexer.block import GPU, Holder, Identity
from indexer.budget import PARKED_BLOCKS
from indexer.claims import Place
from indexer.events import AllBlocksCleared, BlockRemoved, BlockStored, Event, PoolTold, Reason
from indexer.groups import Groups
from indexer.hashing import block_hashes, chain_hashes, root, spread_media
from indexer.index import BlockIndex
from indexer.kept_pieces import CopiedPieces
from indexer.outline import Outline
from indexer.parking import Parking
from indexer.pieces import Pieces
from indexer.rejects import Rejects
from indexer.speculative import Speculative

_GROUPS = "groups"
"""The cause of a suspension: what the engine's groups need is not known."""


class Ledger:
    """
    Args:
        storage: Model → the ledger of storage that all its endpoints share.

    Attributes:
        block_size: Tokens per block as the engine last said; None before its first store.
        rejected: Events, or blocks of them, that did not count, by reason.
        dropped_blocks: Blocks that the budget had no room for since the last clear.
        shared: Ledgers of shared storage of which the engine told, too.
        doubted: What left here, where it is such storage, may not have been told.
    """

    def __init__(
        self,
        holder: Holder,
        index: BlockIndex,
        guesses: Speculative,
        storage: Callable[[str], Ledger] | None = None,
    ) -> None:
        self.holder = holder
        self.block_size: int | None = None
        self.rejected = Rejects()
        self.dropped_blocks = 0
        self.shared: set[Ledger] = set()
        self.doubted = False
        self._index = index
        self._guesses = guesses
        self._storage = storage
        self._parking = Parking(account=index.parked, address=holder.address)
        self._pieces = Pieces(holder, index)
        self._groups = Groups(index.block_size)
        self._suspended: set[object] = set()
        self._usual: tuple[str, int, int | None] | None = None
        """Tier, size and group of a store that was found to count: the next is mostly like it."""

    @property
    def refused(self) -> Reason | None:
        """Why the engine is credited nothing, although its events are understood."""
        if self._groups.refused is None and not self._groups.complete:
            return Reason.MISSING_GROUP
        return self._groups.refused

    @property
    def sizes(self) -> frozenset[int]:
        """Tokens per block that the engine told, of all its groups."""
        return frozenset(self._groups.sizes) | ({self.block_size} if self.block_size else set())

    @property
    def pieces(self) -> int:
        """Engine blocks that are smaller than the index's."""
        return len(self._pieces)

    @property
    def parked_blocks(self) -> int:
        return self._parking.blocks

    def outline(self) -> Outline | None:
        """For `restore`; None where that is not all it takes to go on with the engine's blocks."""
        if self.refused is not None:
            return None
        return Outline(
            self.block_size,
            tuple(self._groups.specs),
            claims=self._index.claims.kept(self.holder),
            speaks_of_others=bool(self.shared),
        )

    def copy_pieces(self) -> CopiedPieces:
        """What is left out of the `outline`, since it may be much."""
        return self._pieces.copy()

    def restore(self, outline: Outline) -> bool:
        """Know of the engine what another ledger knew; the index is given its blocks elsewhere.

        False if there was not room for all of it.
        """
        self._groups.restore(outline.groups)
        self._regroup()
        if outline.block_size is not None:
            self._set_block_size(outline.block_size)
        fits = self._pieces.restore(outline.pieces)
        for claimed in outline.claims:
            fits = fits and self._index.has_room(self.holder)
            if fits:
                self._index.claims.restore(self.holder, claimed)
        return fits

    def apply(self, event: Event, model: str) -> None:
        """Take in one event of a stream whose model is `model`."""
        match event:
            case BlockStored():
                if event.remote and self._storage is not None:
                    self._hand_on(event, self._storage(model), model)
                else:
                    self._stored(event, model)
            case BlockRemoved():
                if event.remote and self._storage is not None:
                    self._hand_on(event, self._storage(model), model)
                else:
                    self._removed(event)
            case AllBlocksCleared():
                self._cleared(event.tier)
            case PoolTold():
                self.rejected[Reason.UNKNOWN_EVENT] += 1  # engines say none

    def takes_as_one(self, run: Sequence[BlockStored]) -> bool:
        """Whether stores, of which each goes on where the one before it ends, are as good as one.

        They are where they have their place, and nothing can come between them.
        """
        first = run[0]
        if not self._is_usual(first) or first.block_size < self._index.block_size:
            return False
        if self._parking.blocks or self._pieces or self._index.claims.waiting:
            return False
        if first.parent is not None and self._known(first.parent) is None:
            return False
        return self._index.has_ample_room(sum([len(store.names) for store in run]))

    def drop(self) -> None:
        """Forget everything: the engine restarted or went away."""
        self._clear()
        self.rejected.begin_anew()
        self._groups = Groups(self._index.block_size)
        self._usual = None
        self._index.traits.forget(self.holder)
        self.resume(_GROUPS)

    def doubt_shared(self) -> None:
        """Nobody can tell any more what became of what the engine told of shared storage."""
        for storage in self.shared:
            storage.doubted = True
        self.shared.clear()

    def suspend(self, cause: object) -> None:
        """Credit nothing until this cause is resumed; several streams may feed one holder."""
        self._suspended.add(cause)
        self._index.bits.suspend(self.holder)

    def resume(self, cause: object) -> None:
        self._suspended.discard(cause)
        if not self._suspended:
            self._index.bits.resume(self.holder)

    def _hand_on(self, event: Event, storage: Ledger, model: str) -> None:
        self.shared.add(storage)
        storage.apply(event, model)

    def _stored(self, event: BlockStored, model: str) -> None:
        if not self._is_usual(event):
            reason = self._fault(event)
            if reason is not None:
                self._skip(event, reason)
                return
            kind = event.tier, event.block_size, event.group
            self._usual = kind if event.has_content else None
        if not event.names:
            pass  # tells only that the group exists
        elif not (event.tokens or event.contents):
            self._located(event)
        elif event.parent is None:
            identity = Identity(model, event.lora, event.salt)
            self._place(event, root(identity, event.unnamed_adapter))
        else:
            chain = self._index.resolve(self.holder, event.parent)
            if chain is None:
                self._continued(event, event.parent)
            else:
                self._place(event, chain)

    def _skip(self, event: BlockStored, reason: Reason) -> None:
        self.rejected[reason] += 1
        self._index.turnover.skip_store(event.group_kind or self._groups.kind(event.group), reason)

    def _continued(self, event: BlockStored, parent: int) -> None:
        chain = self._known(parent)
        if chain is not None or self._continues_a_piece(event, parent):
            self._place(event, chain)
        elif self._groups.further(event.group) is not None:
            self._located(event)
        elif self.dropped_blocks or not self._may_park(event):
            self._drop_tail(event, len(event.names))  # most likely, its parent was left out
        elif dropped := self._parking.park(event, parent):
            self.rejected[Reason.PARKED_OVERFLOW] += dropped

    def _located(self, event: BlockStored) -> None:
        """Take in blocks by their names alone."""
        need = self._groups.need(self._groups.further(event.group))
        for name in event.names:
            reason = None
            if name in self._pieces:
                self._guesses.confirm(self.holder, self._pieces.locate(event.tier, name))
            elif need is None:
                reason = self._index.locate(self.holder, event.tier, name)
            else:
                unit = event.block_size // self._index.block_size or need.unit
                place = Place(event.tier, unit, need.group)
                reason = self._index.claim(self.holder, place, name)
            if reason is not None:
                self.rejected[reason] += 1

    def _removed(self, event: BlockRemoved) -> None:
        names = event.names
        reason = self._groups.fault_of_removal(event.group)
        if reason is not None:
            self._index.turnover.skip_removal(self._groups.kind(event.group), reason)
        if self._parking.blocks:
            left = self._parking.remove(event)
            names = left if self._index.count_repeats else names
        self._take_away(event, names)

    def _take_away(self, event: BlockRemoved, names: Sequence[int]) -> None:
        """One copy of each of these blocks is gone from where the event says."""
        if self._pieces:
            small = [name for name in names if name in self._pieces]
            names = [name for name in names if name not in self._pieces]
            for name in small:
                gone = self._pieces.remove(event.tier, name)
                self._guesses.overrule(self.holder, gone)
        for group in self._groups.further_of(event.group):
            gone = self._index.remove(self.holder, event.tier, names, group)
            if self._guesses.masks:
                self._guesses.overrule(self.holder, gone)

    def _cleared(self, tier: str | None) -> None:
        if tier is None or (not self._pieces and self._index.is_only_in(self.holder, tier)):
            self._clear()
        else:
            self._parking.clear()
            self._pieces.clear_tier(tier)
            self._guesses.overrule(self.holder, self._index.clear_tier(self.holder, tier))

    def _clear(self) -> None:
        self.dropped_blocks = 0
        self.doubted = False
        self._parking.clear()
        self._pieces.clear()
        self._guesses.forget(self.holder)
        self._index.clear(self.holder)

    def _place(self, event: BlockStored, parent: int | None) -> None:
        """Store blocks behind a known parent, then those that waited for them."""
        self._store(event, parent)
        if self._parking.blocks:
            self._place_waiting(event)

    def _place_waiting(self, event: BlockStored) -> None:
        """Store what waited for these blocks."""
        pending = [event]
        gone: list[BlockRemoved] = []
        while pending:
            event = pending.pop()
            for name in event.names:
                for child in self._parking.take(name):
                    self._store(child.store, self._known(name))
                    pending.append(child.store)
                    gone.append(child.removal)
        for removal in gone:  # last, for what waits behind such a block needs it too
            self._take_away(removal, removal.names)

    def _store(self, event: BlockStored, parent: int | None) -> None:
        index, names = self._index, event.names
        size = index.block_size
        if parent is None or event.block_size < size:
            chains = self._pieces.store(event, parent)
            if names[-1] not in self._pieces and not index.has_room(self.holder):
                self._drop_tail(event, 1)
        else:
            if event.contents:
                chains = chain_hashes(event.contents, parent)
            elif event.media:
                media = spread_media(event.media, event.block_size // size)
                chains = block_hashes(event.tokens, size, parent, media)
            else:
                chains = block_hashes(event.tokens, size, parent)
            taken = self._hold(event, chains)
            if taken < len(names):
                self._drop_tail(event, len(names) - taken)
                chains = chains[: taken * (event.block_size // size)]
        if self._guesses.masks:
            self._guesses.confirm(self.holder, chains)

    def _known(self, name: int) -> int | None:
        """The chain hash behind which blocks with this parent lie."""
        chain = self._index.resolve(self.holder, name)
        return self._pieces.chain(name) if chain is None else chain

    def _hold(self, event: BlockStored, chains: Sequence[int]) -> int:
        """Hold the blocks of an event; returns for how many of its names there was room."""
        group = self._groups.further(event.group)
        return self._index.store(self.holder, event.tier, event.names, chains, group)

    def _drop_tail(self, event: BlockStored, names: int) -> None:
        self.rejected[Reason.OVER_BUDGET] += names
        self.dropped_blocks += names * max(1, event.block_size // self._index.block_size)

    def _is_usual(self, event: BlockStored) -> bool:
        """Whether it is of the kind that was found to count."""
        return self._usual == (event.tier, event.block_size, event.group)

    def _may_park(self, event: BlockStored) -> bool:
        return self._index.has_room(self.holder, len(event.names) * PARKED_BLOCKS)

    def _continues_a_piece(self, event: BlockStored, parent: int) -> bool:
        return parent in self._pieces and event.block_size < self._index.block_size

    def _fault(self, event: BlockStored) -> Reason | None:
        """Why a store does not count; None if it does, and then others like it do too."""
        if self._groups.learn(event):
            self._regroup()
        if self._groups.refused is not None:
            return self._groups.refused
        if event.group is None and self._groups.several:
            return Reason.SEVERAL_GROUPS
        size = self._index.block_size
        group = self._groups.further(event.group)
        if event.has_content:
            if group is None:
                self._measure(event)
            if event.block_size % size and size % event.block_size:
                return Reason.BLOCK_SIZE_MISMATCH
        if not self._index.shelves.admits(event.tier, event.block_size // size or 1, group):
            return Reason.TOO_MANY_TIERS
        return None

    def _measure(self, event: BlockStored) -> None:
        """Follow the size of the blocks that the engine computes; other tiers may have larger."""
        if event.block_size != self.block_size and (event.tier == GPU or self.block_size is None):
            self._set_block_size(event.block_size)

    def _set_block_size(self, tokens: int) -> None:
        self.block_size = tokens
        unit = max(1, tokens // self._index.block_size)
        self._index.traits.set_grain(self.holder, self._index.bits.find(self.holder), unit)

    def _regroup(self) -> None:
        """Another group was heard of: credit what all known ones allow, if that can be told."""
        groups = self._groups
        self._usual = None
        if groups.refused is not None:
            self._clear()
        bit = self._index.bits.find(self.holder)
        if groups.needs:
            self._index.traits.set_needs(self.holder, bit, groups.needs, groups.headless)
        if self.refused is None:
            self.resume(_GROUPS)
        else:
            self.suspend(_GROUPS)
