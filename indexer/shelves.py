"""Shelves: the tables of the index, one per tier, size of block and KV cache group.

An engine may keep a tier in blocks larger than the index's. Such a block is there whole or not at
all, so it is one entry, under the chain hash of its last part: that hash covers what comes before.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

Table = dict[int, int]
"""Chain hash → mask of the holders that have the block."""

MAX_TIERS = 8
"""Tiers an index keeps apart; engines announce them by name, so their number needs a bound."""

MAX_SHELVES = 64
"""Tiers times sizes times groups; likewise."""


class Shelf:
    """One table.

    Attributes:
        unit: Blocks of the index per entry.
        group: None for the blocks that a prefix is made of; else the number of a further KV cache
            group, which says only what else a holder needs to reuse a prefix.
    """

    __slots__ = ("group", "table", "tier", "unit")

    def __init__(self, tier: str, unit: int, group: int | None) -> None:
        self.tier = tier
        self.unit = unit
        self.group = group
        self.table: Table = {}


class Shelves:
    """
    Attributes:
        prefix: Shelves without a group, best tier first, larger units first within a tier.
        tables: All tables.
        by_key: All shelves by tier, unit and group, to be read only.
        unit: Blocks per entry where all of `prefix` have the same; 0 where they differ.
    """

    def __init__(self, tiers: Sequence[str]) -> None:
        self.prefix: tuple[Shelf, ...] = ()
        self.tables: tuple[Table, ...] = ()
        self.unit = 1
        self._order = list(tiers)
        self.by_key: dict[tuple[str, int, int | None], Shelf] = {}
        self._found: dict[tuple[str, int | None], tuple[Shelf, ...]] = {}

    def __iter__(self) -> Iterator[Shelf]:
        return iter(self.by_key.values())

    def admits(self, tier: str, unit: int = 1, group: int | None = None) -> bool:
        """Whether blocks can be stored there: the shelf exists, or there is room for it."""
        if (tier, unit, group) in self.by_key:
            return True
        if tier not in self._order and len(self._order) >= MAX_TIERS:
            return False
        return len(self.by_key) < MAX_SHELVES

    def get(self, tier: str, unit: int = 1, group: int | None = None) -> Shelf:
        """The shelf; made at first use."""
        shelf = self.by_key.get((tier, unit, group))
        if shelf is None:
            shelf = self.by_key[tier, unit, group] = Shelf(tier, unit, group)
            if tier not in self._order:
                self._order.append(tier)
            self._arrange()
        return shelf

    def find(self, tier: str, group: int | None = None) -> Sequence[Shelf]:
        """The shelves of a tier, larger units first."""
        return self._found.get((tier, group), ())

    def of_group(self, group: int) -> list[Shelf]:
        """The shelves of a further group, in all tiers."""
        return [shelf for shelf in self if shelf.group == group]

    def present(self, chain: int) -> int:
        """Who has a block on any shelf, retired bits included."""
        present = 0
        for table in self.tables:
            present |= table.get(chain, 0)
        return present

    def prune(self) -> None:
        """Give up the shelves that hold nothing."""
        empty = [key for key, shelf in self.by_key.items() if not shelf.table]
        for key in empty:
            del self.by_key[key]
        if empty:
            self._arrange()

    def _arrange(self) -> None:
        rank = {tier: number for number, tier in enumerate(self._order)}
        ordered = sorted(self, key=lambda shelf: (rank[shelf.tier], -shelf.unit))
        found: dict[tuple[str, int | None], tuple[Shelf, ...]] = {}
        for shelf in ordered:
            key = shelf.tier, shelf.group
            found[key] = (*found.get(key, ()), shelf)
        self._found = found
        self.prefix = tuple(shelf for shelf in ordered if shelf.group is None)
        self.tables = tuple(shelf.table for shelf in ordered)
        units = {shelf.unit for shelf in self.prefix} or {1}
        self.unit = units.pop() if len(units) == 1 else 0
