"""Ids of pieces of text, shared by threads, those not asked for the longest forgotten first. IO."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from sys import getsizeof

import msgspec

ENTRY_BYTES = 250
"""What an entry takes beside its text and its ids: places in the tables and in the order."""

_RUN = 32
"""Pieces that are encoded in one call: more would only need more memory."""

EncodeRun = Callable[[Sequence[str]], Sequence[bytes]]
"""Packed ids of each of some pieces, which stand side by side in a text."""


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
    """Text to packed ids. No two texts can be taken for each other: the key is the text.

    Args:
        max_bytes: Most memory to use. A piece that would take more than an eighth is not kept.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[str, bytes] = OrderedDict()
        self.following: dict[str, str] = {}
        """A piece that is here to the one that was new behind it, which is here too. Only to read.

        A piece that is taken from here is found without reading it: Python keeps its hash.
        """
        self._before: dict[str, str] = {}
        self._stats = CacheStats()

    def stats(self) -> CacheStats:
        """The counters as they are now."""
        with self._lock:
            return msgspec.structs.replace(self._stats, entries=len(self._entries))

    def through(self, pieces: Iterable[str], encode: EncodeRun) -> bytes:
        """Ids of all pieces, in their order. Only those that are not here are encoded."""
        found: list[bytes] = []
        run: dict[str, None] = {}
        for piece in pieces:
            ids = self.get(piece)
            if run and (ids is not None or piece in run or len(run) == _RUN):
                found += self._encoded(list(run), encode)
                run = {}
                # It may have been in the run: the same piece can stand in a text many times.
                ids = ids or self.get(piece)
            if ids is None:
                run[piece] = None
            else:
                found.append(ids)
        if run:
            found += self._encoded(list(run), encode)
        return b"".join(found)

    def get(self, piece: str) -> bytes | None:
        """What is known of a piece."""
        with self._lock:
            ids = self._entries.get(piece)
            if ids is not None:
                self._entries.move_to_end(piece)
                self._stats.hit_tokens += len(ids) >> 2
        return ids

    def put(self, run: Sequence[str], encoded: Sequence[bytes]) -> None:
        """Keep the ids of neighbouring pieces, at the cost of others."""
        before: str | None = None
        with self._lock:
            for piece, ids in zip(run, encoded, strict=True):
                before = piece if self._keep(piece, ids, before) else None

    def _encoded(self, run: Sequence[str], encode: EncodeRun) -> Sequence[bytes]:
        """Ids of pieces that are not here, which are kept from now on."""
        encoded = encode(run)
        self.put(run, encoded)
        return encoded

    def _keep(self, piece: str, ids: bytes, before: str | None) -> bool:
        self._stats.new_tokens += len(ids) >> 2
        size = _size(piece, ids)
        if size > self._max_bytes >> 3 or piece in self._entries:
            return False
        self._entries[piece] = ids
        if before is not None:
            self.following[before] = piece
            self._before[piece] = before
        self._stats.bytes += size
        while self._stats.bytes > self._max_bytes:
            self._forget_oldest()
        return True

    def _forget_oldest(self) -> None:
        piece, ids = self._entries.popitem(last=False)
        self._stats.bytes -= _size(piece, ids)
        self._stats.evicted += 1
        # No text is kept alive that is not accounted for.
        if (before := self._before.pop(piece, None)) is not None:
            del self.following[before]
        if (behind := self.following.pop(piece, None)) is not None:
            del self._before[behind]


def _size(piece: str, ids: bytes) -> int:
    return getsizeof(piece) + getsizeof(ids) + ENTRY_BYTES
