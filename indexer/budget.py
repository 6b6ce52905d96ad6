"""Budget: how many bytes the index may take, told by counting its entries.

What does not fit is not taken in. Blocks come in the order of their sequence, so that is always the
tail: what a holder has stays a prefix, and there is room again as soon as engines remove blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

ENTRY_BYTES: Mapping[str, int] = {
    "blocks": 110,
    "names": 110,
    "own_names": 110,
    "aliases": 110,
    "repeats": 70,
    "claims": 400,
    "pieces": 320,
    "parked": 900,
}
"""Bytes per entry of each table, with its share of the table: the most that was measured while the
tables grew to 175,000 entries, on a 64-bit CPython."""

STORED_BYTES = max(
    ENTRY_BYTES["blocks"] + ENTRY_BYTES["names"],
    ENTRY_BYTES["blocks"] + ENTRY_BYTES["own_names"] + ENTRY_BYTES["aliases"],
    ENTRY_BYTES["claims"],
    ENTRY_BYTES["pieces"],
)
"""The most that one stored block, or one told by name, adds."""

PARKED_BLOCKS = -(-ENTRY_BYTES["parked"] // STORED_BYTES)
"""Stored blocks for which there would be room in place of one that waits for its parent."""


class Budget:
    """
    Args:
        index_bytes: For the whole index; None: no bound.
        endpoint_bytes: For what one endpoint has, its ranks together, as if it were alone.
    """

    def __init__(self, index_bytes: int | None = None, endpoint_bytes: int | None = None) -> None:
        self.is_bounded = index_bytes is not None or endpoint_bytes is not None
        self._index_bytes = index_bytes
        self._endpoint_bytes = endpoint_bytes
        self._spare = 0
        """Blocks that may be stored before the entries have to be counted again."""

    def fits(self, wanted: int) -> bool:
        """Take so many blocks in without counting anew; False where `room` has to tell."""
        if wanted > self._spare or self._endpoint_bytes is not None:
            return False
        self._spare -= wanted
        return True

    def room(self, wanted: int, taken: Callable[[str | None], int], address: str) -> int:
        """How many of so many blocks may be stored for an endpoint.

        `taken` tells the bytes of the whole index, or of an endpoint.
        """
        room = wanted
        if self._index_bytes is not None:
            if wanted > self._spare:
                self._spare = max(0, (self._index_bytes - taken(None)) // STORED_BYTES)
            room = min(room, self._spare)
        if self._endpoint_bytes is not None:
            room = min(room, max(0, (self._endpoint_bytes - taken(address)) // STORED_BYTES))
        self._spare -= min(room, self._spare)
        return room


def bytes_of(sizes: Mapping[str, int]) -> int:
    """What so many entries take."""
    return sum(ENTRY_BYTES[table] * count for table, count in sizes.items())
