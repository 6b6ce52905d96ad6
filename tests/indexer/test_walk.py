"""Walks along a prompt, against a walk holder by holder."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from indexer.holders import single_bits
from indexer.walk import Ends, Tally, walk_on, walk_one_tier, walk_tiers

HASHES = list(range(8))
WALKERS = 0b1111
TABLES = st.dictionaries(st.sampled_from(HASHES), st.integers(1, WALKERS))


def _leading(bit: int, *tables: dict[int, int]) -> int:
    count = 0
    for block in HASHES:
        if not any(table.get(block, 0) & bit for table in tables):
            break
        count += 1
    return count


def _by_bit(ends: Ends) -> dict[int, int]:
    return {bit: end for end, mask in ends.items() for bit in single_bits(mask)}


@given(TABLES)
def test_one_tier_tells_how_far_each_goes(table: dict[int, int]) -> None:
    ends = walk_one_tier(HASHES, table.get, WALKERS)
    assert _by_bit(ends) == {bit: _leading(bit, table) for bit in single_bits(WALKERS)}


@given(st.lists(st.tuples(st.integers(1, 70), st.integers(0, WALKERS)), max_size=6))
def test_long_runs_of_equal_masks_end_where_they_end(runs: list[tuple[int, int]]) -> None:
    masks = [mask for length, mask in runs for _ in range(length)]
    ends = walk_one_tier(range(len(masks)), masks.__getitem__, WALKERS)
    for bit in single_bits(WALKERS):
        leading = next((at for at, mask in enumerate(masks) if not mask & bit), len(masks))
        assert _by_bit(ends)[bit] == leading


@given(TABLES, TABLES)
def test_tiers_add_up_and_each_block_counts_in_its_best(
    gpu: dict[int, int], cpu: dict[int, int]
) -> None:
    ends, (on_gpu, on_cpu) = walk_tiers(HASHES, [gpu.get, cpu.get], WALKERS)
    for bit in single_bits(WALKERS):
        blocks = _leading(bit, gpu, cpu)
        assert _by_bit(ends)[bit] == blocks
        fast = sum(1 for block in HASHES[:blocks] if gpu.get(block, 0) & bit)
        assert on_gpu.counts.get(bit, 0) == fast
        assert on_cpu.counts.get(bit, 0) == blocks - fast


@given(TABLES, TABLES, TABLES)
def test_guesses_fill_the_gaps(
    gpu: dict[int, int], cpu: dict[int, int], guesses: dict[int, int]
) -> None:
    ends, _ = walk_tiers(HASHES, [gpu.get, cpu.get], WALKERS)
    reached = walk_on(HASHES, [gpu.get, cpu.get], guesses, ends)
    assert _by_bit(reached) == {
        bit: _leading(bit, gpu, cpu, guesses) for bit in single_bits(WALKERS)
    }


@given(TABLES)
def test_who_does_not_walk_is_not_counted(table: dict[int, int]) -> None:
    assert not set(_by_bit(walk_one_tier(HASHES, table.get, 0b101))) - {0b1, 0b100}


def test_a_walk_of_nobody_or_along_nothing_ends_at_once() -> None:
    assert walk_one_tier(HASHES, {0: 1}.get, 0) == {}
    assert walk_one_tier(HASHES, dict[int, int]().get, 0b11) == {0: 0b11}
    assert walk_tiers(HASHES, [{0: 1}.get], 0)[0] == {}
    assert walk_one_tier([], {0: 1}.get, 0b11) == {0: 0b11}
    assert walk_on([], [], {0: 1}, {0: 0b11}) == {0: 0b11}


def test_a_tally_counts_the_blocks_of_each_run() -> None:
    tally = Tally()
    for at, mask in enumerate([0b01, 0b11, 0b10, 0b11]):
        tally.turn(mask, at)
    tally.turn(0, 4)
    assert tally.counts == {0b01: 3, 0b10: 3}
