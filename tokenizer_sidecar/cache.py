"""Ids of pieces of text, shared by threads, those not asked for the longest forgotten first. IO."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence

import msgspec

ENTRY_BYTES = 250
"""What an entry takes beside its text and its ids: two objects and a place in the table."""

_AT_ONCE = 256
"""Pieces looked up before other threads get a turn."""


class CacheStats(msgspec.Struct):
    """
    Attributes:
        hit_tokens: Ids that were there.
        new_tokens: Ids that had to be computed.
        bytes: Memory that is used, as accounted.
        entries: Pieces that are kept.
        evicted: Pieces forgotten for others.
    """

    hit_tokens: int = 0
    new_tokens: int = 0
    bytes: int = 0
    entries: int = 0
    evicted: int = 0


class PieceCache:
    """Text, in UTF-8, to packed ids. No two texts can be taken for each other: the key is the text.

    Args:
        max_bytes: Most memory to use. A piece that would take more than an eighth is not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[bytes, bytes] = OrderedDict()
        self._stats = CacheStats()

    def stats(self) -> CacheStats:
        """The counters as they are now."""
        with self._lock:
            return msgspec.structs.replace(self._stats, entries=len(self._entries))

    def through(self, pieces: Sequence[str], encode: Callable[[str], bytes]) -> bytes:
        """Ids of all pieces, in their order. Only those that are not here are encoded."""
        keys = [piece.encode() for piece in pieces]
        found = self.get(keys)
        new: dict[bytes, bytes] = {}
        for i, known in enumerate(found):
            if known is None:
                # The same piece may stand in a text many times.
                if keys[i] not in new:
                    new[keys[i]] = encode(pieces[i])
                    self.put(keys[i], new[keys[i]])
                found[i] = new[keys[i]]
        return b"".join(ids for ids in found if ids is not None)

    def get(self, pieces: Sequence[bytes]) -> list[bytes | None]:
        """What is known of each piece."""
        found: list[bytes | None] = []
        for start in range(0, len(pieces), _AT_ONCE):
            with self._lock:
                for piece in pieces[start : start + _AT_ONCE]:
                    ids = self._entries.get(piece)
                    found.append(ids)
                    if ids is not None:
                        self._entries.move_to_end(piece)
                        self._stats.hit_tokens += len(ids) >> 2
        return found

    def put(self, piece: bytes, ids: bytes) -> None:
        """Keep a piece's ids, at the cost of others."""
        size = _size(piece, ids)
        with self._lock:
            self._stats.new_tokens += len(ids) >> 2
            if size > self._max_bytes >> 3 or piece in self._entries:
                return
            self._entries[piece] = ids
            self._stats.bytes += size
            while self._stats.bytes > self._max_bytes:
                self._stats.bytes -= _size(*self._entries.popitem(last=False))
                self._stats.evicted += 1


def _size(piece: bytes, ids: bytes) -> int:
    return len(piece) + len(ids) + ENTRY_BYTES
