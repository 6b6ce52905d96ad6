"""The walk along a prompt's blocks: how far each holder goes, by tier and by guesses.

Holders travel as a bit mask that only loses bits. Consecutive blocks usually have equal masks, so
work is done where a mask changes and not at every block.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from indexer.holders import single_bits

Lookup = Callable[[int], int | None]
"""Block → mask of its holders; `dict.get` of a tier."""

STRIDE = 64
"""Blocks looked up at a time: counting equal masks at the speed of C pays from a few on."""

Ends = dict[int, int]
"""Number of leading blocks → mask of those who have exactly so many; covers every walker once."""


class Tally:
    """Counts, per bit, at how many blocks it was set in one tier's sequence of masks."""

    def __init__(self) -> None:
        self.mask = 0
        self.counts: dict[int, int] = {}
        self._since: dict[int, int] = {}

    def turn(self, mask: int, at: int) -> None:
        """From block `at` on, the mask is this one."""
        for bit in single_bits(self.mask ^ mask):
            if mask & bit:
                self._since[bit] = at
            else:
                self.counts[bit] = self.counts.get(bit, 0) + at - self._since.pop(bit)
        self.mask = mask


def walk_one_tier(hashes: Sequence[int], lookup: Lookup, walkers: int) -> Ends:
    ends: Ends = {}
    previous: int | None = -1
    for start in range(0, len(hashes), STRIDE):
        masks = list(map(lookup, hashes[start : start + STRIDE]))
        if masks.count(previous) == len(masks):
            continue
        for at, mask in enumerate(masks, start):
            if mask == previous:
                continue
            kept = walkers & mask if mask else 0
            if kept != walkers:
                ends[at] = walkers ^ kept
                walkers = kept
            if not walkers:
                return ends
            previous = mask
    if walkers:
        ends[len(hashes)] = walkers
    return ends


def walk_tiers(
    hashes: Sequence[int], lookups: Sequence[Lookup], walkers: int
) -> tuple[Ends, list[Tally]]:
    """As `walk_one_tier` over several tiers, best first, with each block counted in its best."""
    ends: Ends = {}
    tallies = [Tally() for _ in lookups]
    at = 0
    for block in hashes:
        kept = 0
        for lookup, tally in zip(lookups, tallies, strict=True):
            best = (lookup(block) or 0) & walkers & ~kept
            kept |= best
            if best != tally.mask:
                tally.turn(best, at)
        if kept != walkers:
            ends[at] = walkers ^ kept
            walkers = kept
        if not walkers:
            return ends, tallies
        at += 1
    for tally in tallies:
        tally.turn(0, at)
    if walkers:
        ends[at] = walkers
    return ends, tallies


def walk_on(
    hashes: Sequence[int], lookups: Sequence[Lookup], guesses: Mapping[int, int], ends: Ends
) -> Ends:
    """Where the walkers of `ends` come to an end when guesses count like blocks."""
    reached: Ends = {}
    starts = sorted(ends, reverse=True)
    walkers = at = 0
    while starts or walkers:
        if not walkers:
            at = starts[-1]
        if starts and starts[-1] == at:
            walkers |= ends[starts.pop()]
        kept = walkers
        if at < len(hashes):
            block = hashes[at]
            mask = guesses.get(block, 0)
            for lookup in lookups:
                mask |= lookup(block) or 0
            kept &= mask
        else:
            kept = 0
        if kept != walkers:
            reached[at] = reached.get(at, 0) | (walkers ^ kept)
            walkers = kept
        at += 1
    return reached
