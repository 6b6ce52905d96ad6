"""BlockIndex: block → bit mask of its holders, one table per tier, and names for removals.

Repeated stores of a block by one holder are rare and counted apart. Clearing a holder gives it a
fresh bit, so it takes no time; the old bit is swept out of the tables later in bounded steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from indexer.block import CPU, GPU, Holder, Match
from indexer.holders import HolderBits
from indexer.holding import Holding, Table
from indexer.names import Block, Names, chains_of, last_of
from indexer.sweep import sweep_steps
from indexer.walk import Ends, Tally, walk_on, walk_one_tier, walk_tiers

MAX_TIERS = 8
"""Tiers an index keeps apart; engines announce them by name, so their number needs a bound."""

_NO_GUESSES: Mapping[int, int] = {}


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
        self._tables: dict[str, Table] = {}
        self._names = Names()
        self._holdings: dict[Holder, Holding] = {}
        self._untidy = False
        self._sweeping: Iterator[None] | None = None

    # -- events ---------------------------------------------------------------------------------

    def admits(self, tier: str) -> bool:
        """Whether blocks can be stored in this tier: it is known, or there is room for it."""
        return tier in self._order or len(self._order) < MAX_TIERS

    def resolve(self, holder: Holder, name: int) -> int | None:
        """The chain hash that a holder's name stands for, if it has that block."""
        holding = self._holdings.get(holder)
        if holding is None:
            return None
        block = self._called(holding, name)
        if block is None or not self._present(last_of(block)) & holding.bit:
            return None
        return last_of(block)

    def store(self, holder: Holder, tier: str, names: Sequence[int], chains: Sequence[int]) -> None:
        """Take in blocks: `len(chains) / len(names)` chain hashes for each name, at least one.

        The chain hashes are all different, as those of one sequence are.
        """
        holding, table = self._holding(holder), self._table(tier)
        per_name = len(chains) // len(names)
        if per_name == 1:
            self._store_plain(holding, tier, table, names, chains)
            return
        for number, name in enumerate(names):
            block = tuple(chains[number * per_name : (number + 1) * per_name])
            self._call(holding, name, block)
            for chain in block:
                holding.add(tier, table, chain, self.count_repeats)

    def locate(self, holder: Holder, tier: str, name: int) -> bool:
        """Take in that a block the holder has lies in this tier too; False if it has no such."""
        if self.resolve(holder, name) is None:
            return False
        holding, table = self._holding(holder), self._table(tier)
        for chain in chains_of(self._called(holding, name) or ()):
            holding.add(tier, table, chain, self.count_repeats)
        return True

    def remove(self, holder: Holder, tier: str, names: Sequence[int]) -> list[int]:
        """Take one copy of each block away; returns the chain hashes now gone from this tier."""
        holding, table = self._holdings.get(holder), self._tables.get(tier)
        gone: list[int] = []
        if holding is None or table is None:
            return gone
        for name in names:
            block = self._called(holding, name)
            if block is not None:
                left = [c for c in chains_of(block) if holding.take(tier, table, c)]
                if left:
                    self._release(holding, name, block)
                    gone += left
        return gone

    def clear(self, holder: Holder) -> None:
        """Forget all a holder has, at once."""
        self.bits.retire(holder)
        self._holdings.pop(holder, None)

    def clear_tier(self, holder: Holder, tier: str) -> list[int]:
        """Forget what a holder has in one tier, in a pass over all; returns the chain hashes."""
        holding, table = self._holdings.get(holder), self._tables.get(tier)
        if holding is None or table is None:
            return []
        gone = {chain for chain, mask in table.items() if mask & holding.bit}
        for chain in gone:
            holding.drop(tier, table, chain)
        called = {**self._names.shared, **holding.own}
        for name, block in called.items():
            if last_of(block) in gone:
                self._release(holding, name, block)
        return list(gone)

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
        reached = walk_on(hashes, lookups, guesses, ends) if guesses else ends
        return self._matches(ends, reached, tallies)

    def _matches(self, ends: Ends, reached: Ends, tallies: Sequence[Tally]) -> dict[Holder, Match]:
        """One `Match` for all who share it; only where tiers mix does each holder get its own."""
        matches: dict[Holder, Match] = {}
        for blocks, walkers in ends.items():
            for speculative, reaching in reached.items():
                both = walkers & reaching if speculative else 0
                holders = self.bits.decode(both) if both else ()
                if blocks and tallies:
                    for holder in holders:
                        matches[holder] = Match(blocks, self._split(tallies, holder), speculative)
                elif holders:
                    tiers = {next(iter(self._tables)): blocks} if blocks else {}
                    matches.update(dict.fromkeys(holders, Match(blocks, tiers, speculative)))
        return matches

    def _split(self, tallies: Sequence[Tally], holder: Holder) -> dict[str, int]:
        bit = self.bits.find(holder)
        counts = [tally.counts.get(bit, 0) for tally in tallies]
        return {tier: n for tier, n in zip(self._tables, counts, strict=True) if n}

    # -- upkeep and figures ---------------------------------------------------------------------

    def sweep(self, max_blocks: int) -> bool:
        """Do a bounded part of the clearing up; True while there is more to do."""
        if self._sweeping is None:
            if not self.bits.retired and not self._untidy:
                return False
            self._untidy = False
            tables, holdings = list(self._tables.values()), list(self._holdings.values())
            self._sweeping = sweep_steps(tables, self._names, holdings, self.bits, self._present)
        for _ in range(max_blocks):
            if next(self._sweeping, self) is self:
                self._sweeping = None
                return bool(self.bits.retired or self._untidy)
        return True

    def blocks(self, holder: Holder) -> Mapping[str, int]:
        """Tier → blocks the holder has."""
        holding = self._holdings.get(holder)
        return {tier: n for tier, n in holding.blocks.items() if n} if holding else {}

    def sizes(self) -> dict[str, int]:
        """Entries per internal table; all zero once nobody holds anything and all is swept."""
        holdings = self._holdings.values()
        return {
            "blocks": sum(map(len, self._tables.values())),
            "names": len(self._names.shared),
            "own_names": sum(len(holding.own) for holding in holdings),
            "aliases": len(self._names.aliased),
            "repeats": sum(len(counts) for h in holdings for counts in h.repeats.values()),
        }

    # -- inside ---------------------------------------------------------------------------------

    def _store_plain(
        self,
        holding: Holding,
        tier: str,
        table: Table,
        names: Sequence[int],
        chains: Sequence[int],
    ) -> None:
        """The common case, written out: one chain hash per name, most blocks new to everybody."""
        bit, own, shared = holding.bit, holding.own, self._names.shared
        get, called = table.get, shared.get
        only_table = len(self._tables) == 1
        before, after = 0, bit
        added = 0
        holding.blocks.setdefault(tier, 0)
        for name, chain in zip(names, chains, strict=True):
            mask, known = get(chain), called(name)
            if own or known != chain:
                if not own and known is mask is None and (only_table or not self._present(chain)):
                    shared[name] = chain
                else:
                    self._call(holding, name, chain)
                    mask = get(chain)
            if mask is None:
                table[chain] = bit
                added += 1
            elif not mask & bit:
                if mask != before:  # neighbours have equal masks: let them share one object
                    before, after = mask, mask | bit
                table[chain] = after
                added += 1
            else:
                holding.add(tier, table, chain, self.count_repeats)
        holding.blocks[tier] += added

    def _call(self, holding: Holding, name: int, block: Block) -> None:
        """Make a holder's name mean this block; what it meant before is withdrawn."""
        known = self._called(holding, name)
        if name not in holding.own and known is not None:
            callers = self._names.callers(known, self._present(last_of(known)))
            known = known if callers & holding.bit else None
        if known == block:
            return
        if known is not None:
            for tier, table in self._tables.items():
                for chain in chains_of(known):
                    holding.drop(tier, table, chain)
            self._release(holding, name, known)
        present = self._present(last_of(block))
        if present & holding.bit:
            holding.doubled.add(last_of(block))
        self._names.assign(holding.own, holding.bit, name, block, present)

    def _release(self, holding: Holding, name: int, block: Block) -> None:
        """Forget a name with which its holder has nothing any more, in any tier."""
        chain = last_of(block)
        present = self._present(chain)
        if present & holding.bit:
            return
        self._names.release(holding.own, holding.bit, name, block, present)
        if chain in holding.doubled:
            table = next(iter(self._tables.values()))
            table[chain] = table.get(chain, 0) | self.bits.ghost()
        elif present & self.bits.retired:
            self._untidy = True  # the running sweep may have looked at the name before

    def _called(self, holding: Holding, name: int) -> Block | None:
        block = holding.own.get(name) if holding.own else None
        return self._names.shared.get(name) if block is None else block

    def _present(self, chain: int) -> int:
        """Who has a block in any tier, retired bits included."""
        present = 0
        for table in self._tables.values():
            present |= table.get(chain, 0)
        return present

    def _holding(self, holder: Holder) -> Holding:
        holding = self._holdings.get(holder)
        if holding is None:
            holding = self._holdings[holder] = Holding(self.bits.bit(holder))
        return holding

    def _table(self, tier: str) -> Table:
        """A tier's table; the tables stay in the order of the tiers, best first."""
        table = self._tables.get(tier)
        if table is None:
            table = self._tables[tier] = {}
            if tier not in self._order:
                self._order.append(tier)
            self._tables = {t: self._tables[t] for t in self._order if t in self._tables}
        return table
