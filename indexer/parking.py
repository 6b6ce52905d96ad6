"""Parking: stores whose parent the holder did not announce, until it does."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from indexer.events import BlockStored
from indexer.hashing import TOKEN_BYTES

MAX_PARKED_BLOCKS = 8192
"""Per holder; about what an engine stores in a few hundred requests after a late join."""


class Parking:
    """One holder's parked stores, by the name of the parent they wait for."""

    def __init__(self, max_blocks: int = MAX_PARKED_BLOCKS) -> None:
        self.blocks = 0
        self._max_blocks = max_blocks
        self._waiting: dict[int, list[BlockStored]] = {}
        self._parents: dict[int, int] = {}
        """Name of a parked block → the parent its store waits for."""

    def park(self, store: BlockStored, parent: int) -> int:
        """Keep a store; returns how many older ones gave way."""
        self._waiting.setdefault(parent, []).append(store)
        self._parents.update(dict.fromkeys(store.names, parent))
        self.blocks += len(store.names)
        dropped = 0
        while self.blocks > self._max_blocks:
            dropped += len(self.take(next(iter(self._waiting))))
        return dropped

    def take(self, parent: int) -> list[BlockStored]:
        """Hand out, and forget, what waits for this parent."""
        stores = self._waiting.pop(parent, [])
        for store in stores:
            self.blocks -= len(store.names)
            for name in store.names:
                self._parents.pop(name, None)
        return stores

    def remove(self, names: Iterable[int]) -> None:
        """The engine removed these: a parked block goes, with those that follow it in its store."""
        for name in names:
            parent = self._parents.get(name)
            if parent is not None:
                for store in self.take(parent):
                    kept = _until(store, name)
                    if kept.names:
                        self.park(kept, parent)

    def clear(self) -> None:
        self.blocks = 0
        self._waiting.clear()
        self._parents.clear()


def _until(store: BlockStored, name: int) -> BlockStored:
    """The part of a store before the named block; all of it if the block is not in it."""
    if name not in store.names:
        return store
    count = list(store.names).index(name)
    tokens = store.tokens[: count * store.block_size * TOKEN_BYTES]
    return msgspec.structs.replace(store, names=store.names[:count], tokens=tokens)
