"""Parking: stores whose parent the holder did not announce, until it does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import msgspec

from indexer.events import BlockRemoved, BlockStored

MAX_PARKED_BLOCKS = 8192
"""Per holder; about what an engine stores in a few hundred requests after a late join."""


class Parked(msgspec.Struct):
    """A store that waits.

    Attributes:
        gone: Its blocks that were removed meanwhile. They are needed to place those behind them.
    """

    store: BlockStored
    gone: set[int]

    @property
    def removal(self) -> BlockRemoved:
        """What was removed while it waited."""
        store = self.store
        return BlockRemoved(list(self.gone), store.tier, store.group, store.remote)


class Parking:
    """One holder's parked stores, by the name of the parent they wait for.

    Args:
        account: Where the blocks of all holders are counted, by address.
    """

    def __init__(
        self,
        max_blocks: int = MAX_PARKED_BLOCKS,
        account: Counter[str] | None = None,
        address: str = "",
    ) -> None:
        self.blocks = 0
        self._account = Counter() if account is None else account
        self._address = address
        self._max_blocks = max_blocks
        self._waiting: dict[int, list[Parked]] = {}
        self._parents: dict[int, int] = {}
        """Name of a parked block → the parent its stores wait for."""

    def park(self, store: BlockStored, parent: int) -> int:
        """Keep a store; returns how many older ones gave way."""
        self._waiting.setdefault(parent, []).append(Parked(store, set()))
        self._parents.update(dict.fromkeys(store.names, parent))
        self._count(len(store.names))
        dropped = 0
        while self.blocks > self._max_blocks:
            dropped += len(self.take(next(iter(self._waiting))))
        return dropped

    def take(self, parent: int) -> list[Parked]:
        """Hand out, and forget, what waits for this parent."""
        waited = self._waiting.pop(parent, [])
        for parked in waited:
            self._count(-len(parked.store.names))
            for name in parked.store.names:
                if self._parents.get(name) == parent:
                    del self._parents[name]
        return waited

    def remove(self, event: BlockRemoved) -> list[int]:
        """Take one copy of each block from a store that waits; returns those that none has."""
        return [name for name in event.names if not self._remove(name, event)]

    def clear(self) -> None:
        self._count(-self.blocks)
        self._waiting.clear()
        self._parents.clear()

    def _count(self, more: int) -> None:
        self.blocks += more
        self._account[self._address] += more

    def _remove(self, name: int, event: BlockRemoved) -> bool:
        parent = self._parents.get(name)
        waiting: Sequence[Parked] = self._waiting.get(parent, ()) if parent is not None else ()
        for parked in waiting:
            if _tells(parked, name, event):
                parked.gone.add(name)
                if len(parked.gone) == len(set(parked.store.names)):
                    self._forget(parked, self._parents[name])
                return True
        return False

    def _forget(self, parked: Parked, parent: int) -> None:
        """Nothing is left of a store."""
        others = self.take(parent)
        others.remove(parked)
        for other in others:
            self.park(other.store, parent)
            self._waiting[parent][-1].gone = other.gone


def _tells(parked: Parked, name: int, event: BlockRemoved) -> bool:
    """Whether a waiting store has a copy that this removal means."""
    store = parked.store
    return (
        store.tier == event.tier
        and event.group in (None, store.group)
        and name in store.names
        and name not in parked.gone
    )
