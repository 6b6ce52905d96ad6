"""BlockIndex: block → bit mask of its holders, one table per shelf, and names for removals.

Repeated stores of a block by one holder are rare and counted apart. Clearing a holder gives it a
fresh bit, so it takes no time; the old bit is swept out of the tables later in bounded steps.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence

from indexer.block import CPU, GPU, Holder, Match
from indexer.budget import Budget, bytes_of
from indexer.claims import Claims, Place
from indexer.events import Reason
from indexer.holders import HolderBits
from indexer.holding import Holding
from indexer.matching import leading_shared, walk_mixed, walk_plain
from indexer.names import Names
from indexer.shelves import Shelf, Shelves
from indexer.sweep import sweep_steps
from indexer.traits import Traits
from indexer.turnover import Turnover

_NO_GUESSES: Mapping[int, int] = {}
_ALL = -1


class BlockIndex:
    """Who holds which block.

    Args:
        block_size: Tokens per block of the hashes it is given.
        count_repeats: Count repeated stores, so that one removal takes one copy. False for engines
            that announce resident blocks again.
        tiers: Names of tiers, best first; others follow in the order in which they are announced.
        bits: Shared with the layer of guesses, which uses the same masks.
        budget: What the index may take.

    Attributes:
        pieces: Address → blocks of its engine that are smaller than the index's.
        parked: Address → blocks of its engine that wait for their parent.
        shelves: The tables.
        traits: What is special about some holders.
        claims: Blocks told by names that stand for nothing yet.
        turnover: What came and went.
    """

    def __init__(
        self,
        block_size: int,
        count_repeats: bool = True,
        tiers: Sequence[str] = (GPU, CPU),
        bits: HolderBits | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.block_size = block_size
        self.count_repeats = count_repeats
        self.bits = bits if bits is not None else HolderBits()
        self.shelves = Shelves(tiers)
        self.traits = Traits()
        self.claims = Claims()
        self.turnover = Turnover()
        self.pieces: Counter[str] = Counter()
        self.parked: Counter[str] = Counter()
        self._budget = budget or Budget()
        self._names = Names()
        self._holdings: dict[Holder, Holding] = {}
        self._untidy = False
        self._sweeping: Iterator[None] | None = None

    # -- events ---------------------------------------------------------------------------------

    def resolve(self, holder: Holder, name: int) -> int | None:
        """The chain hash that a holder's name stands for, if it has that block."""
        holding = self._holdings.get(holder)
        if holding is None:
            return None
        chain = self._called(holding, name) if holding.own else self._names.shared.get(name)
        if chain is None:
            return None
        for table in self.shelves.tables:
            if table.get(chain, 0) & holding.bit:
                return chain
        return None

    def store(
        self,
        holder: Holder,
        tier: str,
        names: Sequence[int],
        chains: Sequence[int],
        group: int | None = None,
    ) -> int:
        """Take in blocks: `len(chains) / len(names)` chain hashes for each name, at least one.

        The chain hashes are all different, as those of one sequence are. `group` is the number of
        a group beside that whose blocks make up a prefix. Returns for how many names there was
        room; those behind them are left out.
        """
        holding = self._holdings.get(holder) or self._new_holding(holder)
        unit = 1
        if len(chains) != len(names):
            unit = len(chains) // len(names)
            chains = chains[unit - 1 :: unit]
        shelf = self.shelves.by_key.get((tier, unit, group)) or self.shelves.get(tier, unit, group)
        if self._budget.is_bounded and not self._budget.fits(len(names)):
            count = self._affordable(holding, shelf, names, chains)
            names, chains = names[:count], chains[:count]
        self._store(holding, shelf, names, chains)
        if self.claims.waiting:
            self._settle(holder, holding, names)
        return len(names)

    def locate(self, holder: Holder, tier: str, name: int) -> Reason | None:
        """Take in that a block the holder has lies in this tier too; says why it did not."""
        chain = self.resolve(holder, name)
        if chain is None:
            return Reason.UNKNOWN_LOCATION
        if not self.has_room(holder):
            return Reason.OVER_BUDGET
        holding = self._holding(holder)
        unit = self._unit(chain, holding.bit)
        holding.add(self.shelves.get(tier, unit), chain)
        return None

    def claim(self, holder: Holder, place: Place, name: int) -> Reason | None:
        """Take in a block by its name, now or once it is known what the name stands for.

        A unit of 0 is that of the block as others have it. Says why something was left out.
        """
        if not self.has_room(holder):
            return Reason.OVER_BUDGET
        chain = self.resolve(holder, name)
        if chain is None and self.traits.is_shared(holder):
            chain = self.named(name)
        if chain is None:
            kept = self.claims.add(holder, name, place)
            return None if kept else Reason.UNKNOWN_LOCATION
        self.put(holder, place, name, chain)
        return None

    def named(self, name: int) -> int | None:
        """The chain hash that a name stands for, whoever has the block."""
        chain = self._names.shared.get(name)
        if chain is not None:
            return chain
        return next((h.own[name] for h in self._holdings.values() if name in h.own), None)

    def has_ample_room(self, blocks: int) -> bool:
        """Whether so many blocks fit, as far as that is known without counting what is there."""
        return self._budget.is_ample(blocks)

    def has_room(self, holder: Holder, blocks: int = 1) -> bool:
        """Whether the budget allows so many more blocks."""
        return self._budget.room(blocks, self.bytes, holder.address) == blocks

    def put(self, holder: Holder, place: Place, name: int, chain: int) -> None:
        """Store one block of which the chain hash is known; there must be room for it."""
        holding = self._holding(holder)
        unit = place.unit or self._unit(chain, _ALL)
        self._call(holding, name, chain)
        holding.add(self.shelves.get(place.tier, unit, place.group), chain)

    def remove(
        self, holder: Holder, tier: str, names: Sequence[int], group: int | None = None
    ) -> list[int]:
        """Take one copy of each block away; returns the chain hashes now gone from this tier."""
        gone: list[int] = []
        if self.claims.waiting:
            for name in names:
                if name in self.claims.of(holder):
                    self.claims.discard(holder, name, tier, group)
        holding, shelves = self._holdings.get(holder), self.shelves.find(tier, group)
        if holding is None:
            return gone
        if len(self.shelves.tables) == len(shelves) == 1 and holding.is_simple:
            return self._remove_simple(holding, shelves[0], names)
        for name in names:
            chain = self._called(holding, name)
            if chain is None:
                continue
            # Of two units that end alike, the smaller stays: it says less.
            shelf = next((s for s in shelves if s.table.get(chain, 0) & holding.bit), None)
            if shelf is not None and holding.take(shelf, chain):
                self._release(holding, name, chain)
                gone.append(chain)
        self.turnover.removed += len(gone)
        return gone

    def clear(self, holder: Holder) -> None:
        """Forget all a holder has, at once."""
        self.traits.retire(self.bits.find(holder))
        self.bits.retire(holder)
        self.claims.clear(holder)
        self._holdings.pop(holder, None)

    def clear_tier(self, holder: Holder, tier: str) -> list[int]:
        """Forget what a holder has in one tier, in a pass over all; returns the chain hashes."""
        self.claims.clear_tier(holder, tier)
        holding = self._holdings.get(holder)
        if holding is None:
            return []
        gone: set[int] = set()
        for shelf in self.shelves:
            if shelf.tier == tier:
                held = [chain for chain, mask in shelf.table.items() if mask & holding.bit]
                for chain in held:
                    holding.drop(shelf, chain)
                gone.update(held)
        called = {**self._names.shared, **holding.own} if gone else {}
        for name, chain in called.items():
            if chain in gone:
                self._release(holding, name, chain)
        return list(gone)

    # -- requests -------------------------------------------------------------------------------

    def match(
        self,
        hashes: Sequence[int],
        guesses: Mapping[int, int] = _NO_GUESSES,
        readers: int = _ALL,
    ) -> dict[Holder, Match]:
        """How far each holder goes along a prompt; those with no leading block are left out.

        `readers` is the mask of the holders that can read what is shared.
        """
        credited = self.bits.credited
        if self.shelves.unit and self.traits.plain:
            walked = walk_plain(hashes, self.shelves, credited, guesses)
        else:
            walked = walk_mixed(hashes, self.shelves, self.traits, credited, guesses, readers)
        return walked.matches(self.bits)

    def shared_blocks(self, hashes: Sequence[int]) -> int:
        """Leading blocks that whoever reads shared storage has, without any of its own."""
        return leading_shared(hashes, self.shelves, self.traits.shared & self.bits.credited)

    # -- upkeep and figures ---------------------------------------------------------------------

    def sweep(self, max_blocks: int) -> bool:
        """Do a bounded part of the clearing up; True while there is more to do."""
        if self._sweeping is None:
            if not self.bits.retired and not self._untidy:
                return False
            self._untidy = False
            tables, holdings = self.shelves.tables, list(self._holdings.values())
            present = self.shelves.present
            self._sweeping = sweep_steps(tables, self._names, holdings, self.bits, present)
        for _ in range(max_blocks):
            if next(self._sweeping, self) is self:
                self._sweeping = None
                self.shelves.prune()
                return bool(self.bits.retired or self._untidy)
        return True

    def blocks(self, holder: Holder) -> Mapping[str, int]:
        """Tier → blocks the holder has."""
        held: Counter[str] = Counter()
        holding = self._holdings.get(holder)
        for shelf, entries in holding.entries.items() if holding else ():
            if shelf.group is None and entries:
                held[shelf.tier] += entries * shelf.unit
        return dict(held)

    def is_only_in(self, holder: Holder, tier: str) -> bool:
        """Whether a holder has nothing in any other tier, of any group."""
        holding = self._holdings.get(holder)
        entries = holding.entries.items() if holding else ()
        return not self.claims.of(holder) and not any(
            count and shelf.tier != tier for shelf, count in entries
        )

    @property
    def evicted(self) -> int:
        """Blocks that left a holder in a tier, removed or forgotten with all it had."""
        present = sum(sum(holding.entries.values()) for holding in self._holdings.values())
        return self.turnover.admitted - present

    def sizes(self) -> dict[str, int]:
        """Entries per internal table; all zero once nobody holds anything and all is swept."""
        holdings = self._holdings.values()
        return {
            "blocks": sum(map(len, self.shelves.tables)),
            "names": len(self._names.shared),
            "own_names": sum(len(holding.own) for holding in holdings),
            "aliases": len(self._names.aliased),
            "repeats": sum(len(counts) for h in holdings for counts in h.repeats.values()),
            "claims": len(self.claims),
            "pieces": self.pieces.total(),
            "parked": self.parked.total(),
        }

    def bytes(self, address: str | None = None) -> int:
        """What the index takes, or what one endpoint has of it, as if it were alone."""
        if address is None:
            return bytes_of(self.sizes())
        sizes: Counter[str] = Counter(pieces=self.pieces[address], parked=self.parked[address])
        for holder, holding in self._holdings.items():
            if holder.address == address:
                entries = sum(holding.entries.values())
                sizes["blocks"] += entries
                sizes["names"] += max(0, entries - len(holding.own))
                sizes["own_names"] += len(holding.own)
                sizes["aliases"] += len(holding.own)
                sizes["repeats"] += sum(map(len, holding.repeats.values()))
                sizes["claims"] += len(self.claims.of(holder))
        return bytes_of(sizes)

    # -- inside ---------------------------------------------------------------------------------

    def _store(
        self, holding: Holding, shelf: Shelf, names: Sequence[int], chains: Sequence[int]
    ) -> None:
        """The common case, written out: most blocks are new to everybody."""
        table = shelf.table
        bit, own, shared = holding.bit, holding.own, self._names.shared
        get, called = table.get, shared.get
        only_table = len(self.shelves.tables) == 1
        before, after = 0, bit
        added = 0
        if shelf not in holding.entries:
            holding.entries[shelf] = 0  # `_call` may take blocks of this event away again
        for name, chain in zip(names, chains, strict=True):
            known = called(name)
            new = known is None and not own and chain not in table
            if new and (only_table or not self.shelves.present(chain)):
                shared[name] = chain
                table[chain] = bit
                added += 1
                continue
            if own or known != chain:
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
                holding.add(shelf, chain)
        holding.entries[shelf] += added
        self.turnover.admitted += added

    def _remove_simple(self, holding: Holding, shelf: Shelf, names: Sequence[int]) -> list[int]:
        """The common case of `remove`, written out: one table, and one copy of each block."""
        table, bit, shared = shelf.table, holding.bit, self._names.shared
        gone: list[int] = []
        for name in names:
            chain = shared.get(name)
            mask = table.get(chain, 0) if chain is not None else 0
            if chain is None or not mask & bit:
                continue
            if mask == bit:
                del table[chain], shared[name]
            else:
                table[chain] = mask ^ bit
                self._release(holding, name, chain)
            gone.append(chain)
        holding.entries[shelf] -= len(gone)
        self.turnover.removed += len(gone)
        return gone

    def _affordable(
        self, holding: Holding, shelf: Shelf, names: Sequence[int], chains: Sequence[int]
    ) -> int:
        """How many blocks of a store there is room for, one after the other."""
        address = self.bits.decode(holding.bit)[0].address
        room = self._budget.room(len(names), self.bytes, address)
        if room == len(names):
            return room
        count = 0
        repeated = holding.repeats.get(shelf, {})
        for name, chain in zip(names, chains, strict=True):
            held = shelf.table.get(chain, 0) & holding.bit
            counted = not holding.counts or chain in repeated
            if not (held and counted and self._called(holding, name) == chain):  # adds an entry
                if not room:
                    break
                room -= 1
            count += 1
        return count

    def _settle(self, holder: Holder, holding: Holding, names: Sequence[int]) -> None:
        """These names stand for something now: place what was claimed by them."""
        for claimant in {holder, *self.traits.lenders()}:
            waiting = self.claims.of(claimant)
            for name in names:
                chain = self._called(holding, name) if name in waiting else None
                if chain is not None:
                    for place, copies in self.claims.take(claimant, name).items():
                        for _ in range(copies):
                            self.put(claimant, place, name, chain)

    def _unit(self, chain: int, holders: int) -> int:
        """The largest unit in which any of these holders has a block."""
        units = [s.unit for s in self.shelves if s.table.get(chain, 0) & holders]
        return max(units, default=1)

    def _call(self, holding: Holding, name: int, chain: int) -> None:
        """Make a holder's name mean this block; what it meant before is withdrawn."""
        known = self._called(holding, name)
        if name not in holding.own and known is not None:
            callers = self._names.callers(known, self.shelves.present(known))
            known = known if callers & holding.bit else None
        if known == chain:
            return
        if known is not None:
            for shelf in self.shelves:
                holding.drop(shelf, known)
            self._release(holding, name, known)
        present = self.shelves.present(chain)
        if present & holding.bit:
            holding.doubled.add(chain)
        self._names.assign(holding.own, holding.bit, name, chain, present)

    def _release(self, holding: Holding, name: int, chain: int) -> None:
        """Forget a name with which its holder has nothing any more, in any tier."""
        present = self.shelves.present(chain)
        if present & holding.bit:
            return
        self._names.release(holding.own, holding.bit, name, chain, present)
        if chain in holding.doubled:
            table = self.shelves.tables[0]
            table[chain] = table.get(chain, 0) | self.bits.ghost()
        elif present & self.bits.retired:
            self._untidy = True  # the running sweep may have looked at the name before

    def _called(self, holding: Holding, name: int) -> int | None:
        chain = holding.own.get(name) if holding.own else None
        return self._names.shared.get(name) if chain is None else chain

    def _holding(self, holder: Holder) -> Holding:
        return self._holdings.get(holder) or self._new_holding(holder)

    def _new_holding(self, holder: Holder) -> Holding:
        counts = self.count_repeats and not self.traits.is_shared(holder)
        holding = self._holdings[holder] = Holding(self.bits.bit(holder), counts, self.turnover)
        self.traits.admit(holder, holding.bit)
        return holding
