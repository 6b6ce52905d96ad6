"""Shared storage: blocks that every endpoint of a model can load, wherever it computes.

Publishers of such a tier name it in the topic where an endpoint has its address; engines mark such
blocks as remote. Most events only name blocks, by the names of the engines that wrote them.
"""

from __future__ import annotations

import msgspec

from indexer.block import SHARED_STORAGE, Holder
from indexer.claims import Place
from indexer.events import BlockRemoved, BlockStored, Reason
from indexer.groups import FULL_KINDS
from indexer.index import BlockIndex
from indexer.ledger import Ledger
from indexer.speculative import Speculative

_NAMES = frozenset({"SHARED_STORAGE", "OBJECT_STORE"})
"""What stands in a topic in place of an endpoint."""


def shared_by(model: str) -> Holder:
    """The holder of what a model's engines say lies in shared storage."""
    return Holder(f"SHARED_STORAGE@{model}")


def is_shared(holder: Holder) -> bool:
    """Whether this is shared storage and no endpoint."""
    return holder.address.partition("@")[0] in _NAMES


class StorageLedger(Ledger):
    """The ledger of shared storage: one tier, no copies, and any engine's names count."""

    def __init__(self, holder: Holder, index: BlockIndex, guesses: Speculative) -> None:
        super().__init__(holder, index, guesses)
        self._share()

    def drop(self) -> None:
        super().drop()
        self._share()

    def _share(self) -> None:
        self._index.traits.set_shared(self.holder, self._index.bits.find(self.holder))

    def _stored(self, event: BlockStored, model: str) -> None:
        if event.group_kind is not None and event.group_kind not in FULL_KINDS:
            self._skip(event, Reason.UNSUPPORTED_GROUP)
            return
        event = msgspec.structs.replace(
            event, tier=SHARED_STORAGE, group=None, group_kind=None, remote=False
        )
        super()._stored(event, model)

    def _continued(self, event: BlockStored, parent: int) -> None:
        chain = self._known(parent)
        if chain is not None or self._continues_a_piece(event, parent):
            self._place(event, chain)
        else:
            self._located(event)

    def _located(self, event: BlockStored) -> None:
        place = Place(SHARED_STORAGE, event.block_size // self._index.block_size, None)
        for name in event.names:
            if name in self._pieces:
                self._pieces.locate(SHARED_STORAGE, name)
                continue
            reason = self._index.claim(self.holder, place, name)
            if reason is not None:
                self.rejected[reason] += 1

    def _removed(self, event: BlockRemoved) -> None:
        event = msgspec.structs.replace(event, tier=SHARED_STORAGE, group=None)
        self._take_away(event, event.names)
        if not self._index.blocks(self.holder) and not self._index.claims.of(self.holder):
            self.doubted = False

    def _cleared(self, tier: str | None) -> None:
        self._clear()
