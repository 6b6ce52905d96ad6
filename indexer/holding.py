"""What is kept per holder beside its bit in the tables: names of its own, repeats, counts."""

from __future__ import annotations

from indexer.names import Overlay
from indexer.shelves import Shelf
from indexer.turnover import Turnover


class Holding:
    """One holder's share of the index, from one clear to the next.

    Attributes:
        bit: Its bit in the tables.
        counts: Whether repeated stores are counted.
        own: Names that mean something else to it than to the others.
        entries: Shelf → entries held there.
        repeats: Shelf → block → stores beyond the first; only blocks that have any.
        doubled: Blocks that were stored under two names: their removal may leave a name that only
            a sweep finds. Should that name get other content before, the block is withdrawn for
            good measure; names made from content never do.
    """

    def __init__(self, bit: int, counts: bool = True, turnover: Turnover | None = None) -> None:
        """`turnover` is told of what comes one by one, and of copies that are taken."""
        self.bit = bit
        self.counts = counts
        self.own: Overlay = {}
        self.entries: dict[Shelf, int] = {}
        self.repeats: dict[Shelf, dict[int, int]] = {}
        self.doubled: set[int] = set()
        self._turnover = turnover or Turnover()

    @property
    def is_simple(self) -> bool:
        """Whether it has one copy of each block, under a name that others may use too."""
        repeats = self.repeats
        return not (self.own or self.doubled or (repeats and any(repeats.values())))

    def add(self, shelf: Shelf, chain: int) -> None:
        """Hold one more copy of a block."""
        mask = shelf.table.get(chain, 0)
        if not mask & self.bit:
            shelf.table[chain] = mask | self.bit
            self.entries[shelf] = self.entries.get(shelf, 0) + 1
            self._turnover.admitted += 1
        elif self.counts:
            counts = self.repeats.setdefault(shelf, {})
            counts[chain] = counts.get(chain, 0) + 1

    def take(self, shelf: Shelf, chain: int) -> bool:
        """Hold one copy less; True if that was the last."""
        mask = shelf.table.get(chain, 0)
        if not mask & self.bit:
            return False
        counts = self.repeats.get(shelf)
        if counts and chain in counts:
            counts[chain] -= 1
            if not counts[chain]:
                del counts[chain]
            self._turnover.kept += 1
            return False
        self._leave(shelf, chain, mask)
        return True

    def drop(self, shelf: Shelf, chain: int) -> bool:
        """Hold no copy any more; True if there was one."""
        mask = shelf.table.get(chain, 0)
        if not mask & self.bit:
            return False
        self.repeats.get(shelf, {}).pop(chain, None)
        self._leave(shelf, chain, mask)
        return True

    def _leave(self, shelf: Shelf, chain: int, mask: int) -> None:
        rest = mask ^ self.bit
        if rest:
            shelf.table[chain] = rest
        else:
            del shelf.table[chain]
        self.entries[shelf] -= 1
