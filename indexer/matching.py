"""Matching: from the tables' masks to each holder's `Match`.

Most fleets have blocks of one size in one group: then the tables are walked as they are. Where
sizes mix, further groups set conditions or storage is shared, each tier is first spread out to one
mask per block of the prompt.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat
from operator import and_, or_

from indexer.block import GPU, Holder, Match
from indexer.groups import Need, cut
from indexer.holders import HolderBits
from indexer.shelves import Shelves
from indexer.traits import Traits
from indexer.walk import Ends, Tally, spread, walk_on, walk_one_tier, walk_tiers

_NO_GUESSES: Mapping[int, int] = {}


class Walked:
    """How far everybody goes.

    Attributes:
        tiers: Tiers in the order of `tallies`; of one only where there are none.
        ends: By confirmed blocks.
        reached: With guesses.
        unit: Blocks per step of the walk.
    """

    def __init__(
        self,
        tiers: Sequence[str],
        ends: Ends,
        reached: Ends,
        tallies: Sequence[Tally] = (),
        unit: int = 1,
    ) -> None:
        self.tiers = tiers
        self.ends = ends
        self.reached = reached
        self.tallies = tallies
        self.unit = unit

    def matches(self, bits: HolderBits) -> dict[Holder, Match]:
        """One `Match` for all who share it; only where tiers mix does each holder get its own."""
        matches: dict[Holder, Match] = {}
        for steps, walkers in self.ends.items():
            blocks = steps * self.unit
            for far, reaching in self.reached.items():
                both = walkers & reaching if far else 0
                holders = bits.decode(both) if both else ()
                speculative = far * self.unit
                if blocks and self.tallies:
                    for holder in holders:
                        tiers = self._split(bits.find(holder))
                        matches[holder] = Match(blocks, tiers, speculative)
                elif holders:
                    tiers = {self.tiers[0]: blocks} if blocks else {}
                    matches.update(dict.fromkeys(holders, Match(blocks, tiers, speculative)))
        return matches

    def _split(self, bit: int) -> dict[str, int]:
        counts = [tally.counts.get(bit, 0) * self.unit for tally in self.tallies]
        return {tier: n for tier, n in zip(self.tiers, counts, strict=True) if n}


def walk_plain(
    hashes: Sequence[int], shelves: Shelves, walkers: int, guesses: Mapping[int, int]
) -> Walked:
    """The walk where all blocks have one size, and a prefix's blocks are all it takes."""
    unit = shelves.unit
    if unit > 1:
        hashes = hashes[unit - 1 :: unit]
    lookups = [shelf.table.get for shelf in shelves.prefix]
    tallies: list[Tally] = []
    if len(lookups) > 1:
        ends, tallies = walk_tiers(hashes, lookups, walkers)
    elif lookups:
        ends = walk_one_tier(hashes, lookups[0], walkers)
    else:
        ends = {0: walkers}
    reached = walk_on(hashes, lookups, guesses, ends) if guesses else ends
    return Walked([shelf.tier for shelf in shelves.prefix], ends, reached, tallies, unit)


def walk_mixed(
    hashes: Sequence[int],
    shelves: Shelves,
    traits: Traits,
    credited: int,
    guesses: Mapping[int, int],
    readers: int,
) -> Walked:
    """The walk in general; `readers` is the mask of who can read what is shared."""
    if shelves.unit and not traits.headless and not traits.shared:
        quick = _walk_needy(hashes, shelves, traits, credited, guesses)
        if quick is not None:
            return quick
    walkers = credited & ~traits.shared
    rows = _rows(hashes, shelves, traits, readers, traits.shared & credited)
    blocks = range(len(hashes))
    lookups = [row.__getitem__ for row in rows.values()]
    ends, tallies = walk_tiers(blocks, lookups, walkers)
    reached = ends
    if guesses:
        guessed = _guessed(hashes, traits, guesses)
        reached = walk_on(blocks, [*lookups, guessed.__getitem__], {}, ends)
        reached = cut(reached, traits.needing, _present(hashes, shelves, guesses))
    if traits.needing:
        ends = cut(ends, traits.needing, _present(hashes, shelves, _NO_GUESSES))
        limits = _limits(ends, len(hashes))
        within = [list(map(and_, row, limits)).__getitem__ for row in rows.values()]
        ends, tallies = walk_tiers(blocks, within, walkers)
        reached = reached if guesses else ends
    return Walked(list(rows), ends, reached, tallies)


def _walk_needy(
    hashes: Sequence[int],
    shelves: Shelves,
    traits: Traits,
    walkers: int,
    guesses: Mapping[int, int],
) -> Walked | None:
    """The plain walk, cut by what groups need; None where that would upset the tallies."""
    unit = shelves.unit
    plain = walk_plain(hashes, shelves, walkers, guesses)
    full = {steps * unit: mask for steps, mask in plain.ends.items()}
    ends = cut(full, traits.needing, _present(hashes, shelves, _NO_GUESSES))
    if len(shelves.prefix) > 1 and ends != full:
        return None
    reached = ends
    if guesses:
        far = {steps * unit: mask for steps, mask in plain.reached.items()}
        reached = cut(far, traits.needing, _present(hashes, shelves, guesses))
    tallies = plain.tallies if unit == 1 else [_scaled(tally, unit) for tally in plain.tallies]
    return Walked(plain.tiers, ends, reached, tallies)


def _scaled(tally: Tally, unit: int) -> Tally:
    scaled = Tally()
    scaled.counts = {bit: count * unit for bit, count in tally.counts.items()}
    return scaled


def leading_shared(hashes: Sequence[int], shelves: Shelves, lenders: int) -> int:
    """Leading blocks that lie in shared storage."""
    count = 0
    while lenders and count < len(hashes):
        for shelf in shelves.prefix:
            end = count - count % shelf.unit + shelf.unit
            if end <= len(hashes) and shelf.table.get(hashes[end - 1], 0) & lenders:
                count = end
                break
        else:
            break
    return count


def _rows(
    hashes: Sequence[int], shelves: Shelves, traits: Traits, readers: int, lenders: int
) -> dict[str, list[int]]:
    """Tier → for each block the mask of who has it there, best tier first."""
    rows: dict[str, list[int]] = {}
    for holders in traits.needing.values():
        readers &= ~holders  # what of their further groups is shared is not known
    for shelf in shelves.prefix:
        row = spread(hashes, shelf.unit, shelf.table.get)
        if lenders:
            row = [mask | readers if mask & lenders else mask for mask in row]
        rows[shelf.tier] = list(map(or_, rows[shelf.tier], row)) if shelf.tier in rows else row
    if traits.headless:
        # Without a group that needs all blocks, only the conditions of `cut` hold a prefix back.
        row = rows.get(GPU) or [0] * len(hashes)
        rows[GPU] = list(map(or_, row, repeat(traits.headless)))
    return rows


def _guessed(hashes: Sequence[int], traits: Traits, guesses: Mapping[int, int]) -> list[int]:
    """For each block the mask of whom it is guessed for, where they have it in whole units."""
    row = spread(hashes, 1, guesses.get)
    for unit, holders in traits.grains.items():
        whole = spread(hashes, unit, guesses.get)
        row = [(one & ~holders) | (all_ & holders) for one, all_ in zip(row, whole, strict=True)]
    return row


def _present(
    hashes: Sequence[int], shelves: Shelves, guesses: Mapping[int, int]
) -> Callable[[Need, int], int]:
    lookups: dict[int, list[tuple[int, Callable[[int], int | None]]]] = {}

    def present(need: Need, number: int) -> int:
        """Who has a block of a group, in any tier, in a unit as large or larger."""
        found = lookups.get(need.group)
        if found is None:
            found = [(shelf.unit, shelf.table.get) for shelf in shelves.of_group(need.group)]
            lookups[need.group] = found
        last = (number + 1) * need.unit - 1
        mask = guesses.get(hashes[last], 0) if guesses else 0
        for unit, lookup in found:
            end = last - last % unit + unit - 1
            if unit % need.unit == 0 and end < len(hashes):
                mask |= lookup(hashes[end]) or 0
        return mask

    return present


def _limits(ends: Ends, count: int) -> list[int]:
    """For each block the mask of those whose prefix goes beyond it."""
    limits = []
    beyond = 0
    for mask in ends.values():
        beyond |= mask
    for at in range(count):
        beyond &= ~ends.get(at, 0)
        limits.append(beyond)
    return limits
