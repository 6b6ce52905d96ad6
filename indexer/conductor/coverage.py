"""How far each holder covers a prompt, by the rule of `kv-conductor`.

Its own memory counts from the root to the first block that is missing there. A lower tier goes on
where the ones above it end, and does not lead back to them. Each block counts in its best tier. The
router's own walk changes tier from block to block; the two differ only where an upper tier has a
hole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from operator import or_

from indexer.block import CPU, GPU, Holder, Match
from indexer.media import DISK, TIERS, tier_of
from indexer.prefix_index import PrefixIndex
from indexer.shelves import Shelf
from indexer.walk import Ends, Lookup, spread, walk_on, walk_one_tier

Counts = tuple[int, int, int]
"""Blocks in an engine's own memory, beyond it in CPU memory, beyond both on disk."""

_Way = tuple[Sequence[int], Lookup]


def coverage(index: PrefixIndex, hashes: Sequence[int], among: int) -> Mapping[Holder, Counts]:
    """What those of the holders in the mask `among` have that have anything."""
    blocks = index.blocks
    traits = blocks.traits
    walkers = among & blocks.bits.credited & ~traits.shared
    # What engines with several kinds of cache can reuse is more than a question of tiers.
    conditional = traits.headless
    for needing in traits.needing.values():
        conditional |= needing
    counts = dict(_walked(index, hashes, walkers & ~conditional))
    if walkers & conditional:
        for holder, match in blocks.match(hashes).items():
            if match.blocks and blocks.bits.find(holder) & walkers & conditional:
                counts[holder] = counts_of(match)
    return counts


def counts_of(match: Match) -> Counts:
    """A match of the router's walk in the same terms."""
    return by_tier(match.tiers)


def by_tier(tiers: Mapping[str, int]) -> Counts:
    """Blocks per tier, or per medium, as counts; those of other tiers count for nothing."""
    found = dict.fromkeys(TIERS, 0)
    for name, blocks in tiers.items():
        tier = tier_of(name)
        if tier in found:
            found[tier] += blocks
    return found[GPU], found[CPU], found[DISK]


def _walked(
    index: PrefixIndex, hashes: Sequence[int], walkers: int
) -> Sequence[tuple[Holder, Counts]]:
    blocks = index.blocks
    if not walkers:
        return []
    own = _way(hashes, blocks.shelves.find(GPU))
    first = walk_one_tier(*own, walkers) if own else {0: walkers}
    doubted = index.pooling.doubted_mask() if index.pooling else 0
    second = _continued(_way(hashes, blocks.shelves.find(CPU)), first, doubted)
    third = _continued(_way(hashes, blocks.shelves.find(DISK)), second, doubted)
    found: list[tuple[Holder, Counts]] = []
    for npu, at_first in first.items():
        for cpu, at_second in second.items():
            for disk, at_third in third.items():
                mask = at_first & at_second & at_third
                if mask and disk:
                    counts = npu, cpu - npu, disk - cpu
                    found.extend((holder, counts) for holder in blocks.bits.decode(mask))
    return found


def _way(hashes: Sequence[int], shelves: Sequence[Shelf]) -> _Way | None:
    """What to walk along and who has what there; None where nobody has anything in the tier."""
    if not shelves:
        return None
    if len(shelves) == 1 and shelves[0].unit == 1:
        return hashes, shelves[0].table.get
    row = [0] * len(hashes)
    for shelf in shelves:
        row = list(map(or_, row, spread(hashes, shelf.unit, shelf.table.get)))
    return range(len(hashes)), row.__getitem__


def _continued(way: _Way | None, ends: Ends, stay: int) -> Ends:
    """Where those come to an end who go on in a tier from `ends`; those in `stay` do not."""
    if way is None:
        return ends
    blocks, lookup = way
    staying = {at: mask & stay for at, mask in ends.items() if mask & stay}
    going = {at: mask & ~stay for at, mask in ends.items() if mask & ~stay}
    reached = walk_on(blocks, [lookup], {}, going)
    for at, mask in staying.items():
        reached[at] = reached.get(at, 0) | mask
    return reached
