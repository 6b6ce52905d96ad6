"""Matching: where sizes mix, the general walk and the plain one against a naive count."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from indexer.block import Holder, Match
from indexer.index import BlockIndex
from indexer.matching import leading_shared, walk_mixed, walk_plain
from indexer.shelves import Shelves
from indexer.traits import Traits
from tests.indexer.make import E1, E2

HASHES = list(range(101, 109))
TIERS = ("gpu", "cpu")
PLACES = st.tuples(st.sampled_from([E1, E2]), st.sampled_from(TIERS), st.sampled_from([1, 2, 4]))


def _unit(number: int, unit: int) -> list[int]:
    return HASHES[number * unit : (number + 1) * unit]


@given(st.sets(st.tuples(PLACES, st.integers(0, 7))), st.integers(0, 8))
def test_a_unit_counts_whole_in_its_best_tier_or_not_at_all(
    stored: set[tuple[tuple[Holder, str, int], int]], length: int
) -> None:
    index = BlockIndex(16)
    for (holder, tier, unit), number in stored:
        if block := _unit(number, unit):
            index.store(holder, tier, block[-1:], block)
    prompt = HASHES[:length]
    expected = {}
    for holder in (E1, E2):
        best: Counter[str] = Counter()
        for at in range(length):
            there = [
                tier
                for tier in TIERS
                for unit in (1, 2, 4)
                if ((holder, tier, unit), at // unit) in stored
                and (at // unit + 1) * unit <= length
            ]
            if not there:
                break
            best[there[0]] += 1
        if best:
            expected[holder] = Match(best.total(), dict(best), best.total())
    assert index.match(prompt) == expected


TABLES = st.dictionaries(st.sampled_from(HASHES), st.integers(1, 7))


@given(TABLES, TABLES, TABLES, st.integers(0, 8))
def test_the_general_walk_tells_what_the_plain_one_tells(
    gpu: dict[int, int], cpu: dict[int, int], guesses: dict[int, int], length: int
) -> None:
    shelves = Shelves(TIERS)
    shelves.get("gpu").table.update(gpu)
    shelves.get("cpu").table.update(cpu)
    prompt = HASHES[:length]
    plain = walk_plain(prompt, shelves, 7, guesses)
    mixed = walk_mixed(prompt, shelves, Traits(), 7, guesses, -1)
    assert (plain.ends, plain.reached) == (mixed.ends, mixed.reached)
    assert [t.counts for t in plain.tallies] == [t.counts for t in mixed.tallies]


def test_a_guess_for_large_blocks_counts_whole() -> None:
    index = BlockIndex(16)
    index.store(E1, "gpu", [1], HASHES[:4])
    index.store(E2, "cpu", [2], HASHES[:1])
    index.traits.set_grain(E1, index.bits.find(E1), 4)
    one, two = index.bits.find(E1), index.bits.find(E2)
    whole = dict.fromkeys(HASHES, one | two)
    assert {h: m.speculative for h, m in index.match(HASHES, whole).items()} == {E1: 8, E2: 8}
    del whole[HASHES[7]]  # the engine removed the block of which this is the last part
    assert {h: m.speculative for h, m in index.match(HASHES, whole).items()} == {E1: 4, E2: 7}


def test_shared_storage_is_read_by_its_readers() -> None:
    index = BlockIndex(16)
    store = Holder("SHARED_STORAGE")
    index.traits.set_shared(store, 0)
    index.store(store, "shared_storage", [4], HASHES[:4])
    one, two = index.bits.bit(E1), index.bits.bit(E2)
    assert index.match(HASHES, readers=one) == {E1: Match(4, {"shared_storage": 4}, 4)}
    assert set(index.match(HASHES, readers=one | two)) == {E1, E2}
    index.store(E1, "gpu", [1, 2], HASHES[:2])
    tiers = {"gpu": 2, "shared_storage": 2}
    assert index.match(HASHES, readers=one)[E1] == Match(4, tiers, 4)
    assert index.shared_blocks(HASHES) == 4
    assert index.shared_blocks(HASHES[:3]) == 0
    assert leading_shared(HASHES, index.shelves, 0) == 0
