"""BlockIndex: block → bit mask of its holders, one table per tier, and names for removals.

Repeated stores of a block by one holder are rare and counted apart. Clearing a holder gives it a
fresh bit, so it takes no time; the old bit is swept out of the tables later in bounded steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from indexer.block import CPU, GPU, Holder, Match
from indexer.holders import HolderBits
from indexer.names import Block, Names, Overlay, chains_of, last_of
from indexer.walk import Ends, Tally, walk_on, walk_one_tier, walk_tiers

MAX_TIERS = 8
"""Tiers an index keeps apart; engines announce them by name, so their number needs a bound."""

_NO_GUESSES: Mapping[int, int] = {}


class _Holding:
    """What is kept per holder beside its bit in the tables."""

    def __init__(self, bit: int) -> None:
        self.bit = bit
        self.own: Overlay = {}
        self.repeats: dict[str, dict[int, int]] = {}
        """Tier → block → stores beyond the first."""
        self.blocks: dict[str, int] = {}
        """Tier → blocks held."""
        self.has_doubles = False
        """Some block was stored under two names; a sweep must look for forgotten ones."""


class BlockIndex:
    """Who holds which block.

    Args:
        block_size: Tokens per block of the hashes it is given.
        count_repeats: Count repeated stores, so that one removal takes one copy. False for engines
            that announce resident blocks again.
        tiers: Names of tiers, best first; others follow in the order in which they are announced.
        bits: Shared with the layer of guesses, which uses the same masks.
    """

    def __init__(
        self,
        block_size: int,
        count_repeats: bool = True,
        tiers: Sequence[str] = (GPU, CPU),
        bits: HolderBits | None = None,
    ) -> None:
        self.block_size = block_size
        self.count_repeats = count_repeats
        self.bits = bits if bits is not None else HolderBits()
        self._order = list(tiers)
        self._tables: dict[str, dict[int, int]] = {}
        self._names = Names()
        self._holdings: dict[Holder, _Holding] = {}
        self._untidy = False
        self._sweeping: Iterator[None] | None = None

    # -- events ---------------------------------------------------------------------------------

    def admits(self, tier: str) -> bool:
        """Whether a block may be stored in this tier: it is known, or there is room for one more."""
        return tier in self._order or len(self._order) < MAX_TIERS

    def resolve(self, holder: Holder, name: int) -> int | None:
        """The chain hash that a holder's name stands for, if it has that block."""
        holding = self._holdings.get(holder)
        if holding is None:
            return None
        block = holding.own.get(name) or self._names.shared.get(name)
        if block is None or not self._present(last_of(block)) & holding.bit:
            return None
        return last_of(block)

    def store(self, holder: Holder, tier: str, names: Sequence[int], chains: Sequence[int]) -> None:
        """Take in blocks, `len(chains) / len(names)` chain hashes for each name."""
        holding, table = self._holding(holder), self._table(tier)
        per_name = len(chains) // len(names)
        if per_name == 1:
            self._store_plain(holding, tier, table, names, chains)
            return
        for number, name in enumerate(names):
            block = tuple(chains[number * per_name : (number + 1) * per_name])
            self._call(holding, name, block)
            for chain in block:
                self._set(holding, tier, table, chain)

    def locate(self, holder: Holder, tier: str, name: int) -> bool:
        """Take in that a block the holder already has lies in this tier too; False if it has not."""
        holding = self._holdings.get(holder)
        if holding is None or self.resolve(holder, name) is None:
            return False
        table = self._table(tier)
        for chain in chains_of(holding.own.get(name) or self._names.shared[name]):
            self._set(holding, tier, table, chain)
        return True

    def remove(self, holder: Holder, tier: str, names: Sequence[int]) -> list[int]:
        """Take one copy of each block away; returns the chain hashes now gone from this tier."""
        holding, table = self._holdings.get(holder), self._tables.get(tier)
        gone: list[int] = []
        if holding is None or table is None:
            return gone
        for name in names:
            block = holding.own.get(name) if holding.own else None
            if block is None:
                block = self._names.shared.get(name)
            if block is not None:
                before = len(gone)
                for chain in chains_of(block):
                    if self._unset(holding, tier, table, chain):
                        gone.append(chain)
                if len(gone) > before:
                    self._release(holding, name, block)
        return gone

    def clear(self, holder: Holder) -> None:
        """Forget all a holder has, at once."""
        self.bits.retire(holder)
        self._holdings.pop(holder, None)

    def clear_tier(self, holder: Holder, tier: str) -> list[int]:
        """Forget what a holder has in one tier; takes a pass over that tier, unlike `clear`."""
        holding, table = self._holdings.get(holder), self._tables.get(tier)
        if holding is None or table is None:
            return []
        holding.repeats.pop(tier, None)
        gone = [chain for chain, mask in table.items() if mask & holding.bit]
        for chain in gone:
            self._unset(holding, tier, table, chain)
        self._untidy = True
        return gone

    # -- requests -------------------------------------------------------------------------------

    def match(
        self, hashes: Sequence[int], guesses: Mapping[int, int] = _NO_GUESSES
    ) -> dict[Holder, Match]:
        """How far each holder goes along a prompt; those with no leading block are left out."""
        lookups = [table.get for table in self._tables.values()]
        tallies: list[Tally] = []
        if len(lookups) > 1:
            ends, tallies = walk_tiers(hashes, lookups, self.bits.credited)
        elif lookups:
            ends = walk_one_tier(hashes, lookups[0], self.bits.credited)
        else:
            ends = {0: self.bits.credited}
        if not guesses:
            return self._matches(ends, ends, tallies)
        return self._matches(ends, walk_on(hashes, lookups, guesses, ends), tallies)

    def _matches(self, ends: Ends, reached: Ends, tallies: Sequence[Tally]) -> dict[Holder, Match]:
        matches: dict[Holder, Match] = {}
        decode = self.bits.decode
        for blocks, walkers in ends.items():
            for speculative, reaching in reached.items():
                both = walkers & reaching
                if not both or not speculative:
                    continue
                if blocks and tallies:
                    for holder in decode(both):
                        tiers = self._tiers(tallies, holder)
                        matches[holder] = Match(blocks, tiers, speculative)
                    continue
                tiers = {next(iter(self._tables)): blocks} if blocks else {}
                matches.update(dict.fromkeys(decode(both), Match(blocks, tiers, speculative)))
        return matches

    def _tiers(self, tallies: Sequence[Tally], holder: Holder) -> dict[str, int]:
        bit = self.bits.find(holder)
        counts = [tally.counts.get(bit, 0) for tally in tallies]
        return {tier: n for tier, n in zip(self._tables, counts, strict=True) if n}

    # -- upkeep and figures ---------------------------------------------------------------------

    def sweep(self, max_blocks: int) -> bool:
        """Do a bounded part of the clearing up; True while there is more to do."""
        if self._sweeping is None:
            if not self.bits.retired and not self._untidy:
                return False
            self._sweeping = self._sweep_steps()
        for _ in range(max_blocks):
            try:
                next(self._sweeping)
            except StopIteration:
                self._sweeping = None
                return bool(self.bits.retired or self._untidy)
        return True

    def blocks(self, holder: Holder) -> Mapping[str, int]:
        """Tier → blocks the holder has."""
        holding = self._holdings.get(holder)
        return {tier: n for tier, n in holding.blocks.items() if n} if holding else {}

    def sizes(self) -> dict[str, int]:
        """Entries of each internal table; all zero when nobody holds anything and all is swept."""
        return {
            "blocks": sum(len(table) for table in self._tables.values()),
            "names": len(self._names.shared),
            "own_names": sum(len(holding.own) for holding in self._holdings.values()),
            "aliases": len(self._names.aliased),
            "repeats": sum(
                len(counts)
                for holding in self._holdings.values()
                for counts in holding.repeats.values()
            ),
        }
