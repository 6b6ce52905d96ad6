"""What is kept per holder beside its bit in the tables: names of its own, repeats, counts."""

from __future__ import annotations

from indexer.names import Overlay

Table = dict[int, int]
"""One tier: chain hash → mask of the holders that have the block there."""


class Holding:
    """One holder's share of the index, from one clear to the next.

    Attributes:
        bit: Its bit in the tables.
        own: Names that mean something else to it than to the others.
        blocks: Tier → blocks held.
        repeats: Tier → block → stores beyond the first; only blocks that have any.
        doubled: Blocks that were stored under two names: their removal may leave a name that only
            a sweep finds. Should that name get other content before, the block is withdrawn for
            good measure; names made from content never do.
    """

    def __init__(self, bit: int) -> None:
        self.bit = bit
        self.own: Overlay = {}
        self.blocks: dict[str, int] = {}
        self.repeats: dict[str, dict[int, int]] = {}
        self.doubled: set[int] = set()

    def add(self, tier: str, table: Table, chain: int, count_repeats: bool) -> None:
        """Hold one more copy of a block."""
        mask = table.get(chain, 0)
        if not mask & self.bit:
            table[chain] = mask | self.bit
            self.blocks[tier] = self.blocks.get(tier, 0) + 1
        elif count_repeats:
            counts = self.repeats.setdefault(tier, {})
            counts[chain] = counts.get(chain, 0) + 1

    def take(self, tier: str, table: Table, chain: int) -> bool:
        """Hold one copy less; True if that was the last."""
        mask = table.get(chain, 0)
        if not mask & self.bit:
            return False
        counts = self.repeats.get(tier)
        if counts and chain in counts:
            counts[chain] -= 1
            if not counts[chain]:
                del counts[chain]
            return False
        self._leave(tier, table, chain, mask)
        return True

    def drop(self, tier: str, table: Table, chain: int) -> bool:
        """Hold no copy any more; True if there was one."""
        mask = table.get(chain, 0)
        if not mask & self.bit:
            return False
        self.repeats.get(tier, {}).pop(chain, None)
        self._leave(tier, table, chain, mask)
        return True

    def _leave(self, tier: str, table: Table, chain: int, mask: int) -> None:
        rest = mask ^ self.bit
        if rest:
            table[chain] = rest
        else:
            del table[chain]
        self.blocks[tier] -= 1
