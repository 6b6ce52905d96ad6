"""The rule of the answers: by hand, against a plain reading of it, and beside the router's walk."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.block import Holder
from indexer.conductor.coverage import Counts, by_tier, counts_of, coverage
from indexer.events import BlockStored
from indexer.hashing import pack
from indexer.media import TIERS
from indexer.prefix_index import PrefixIndex
from tests.indexer import make
from tests.indexer.make import BASE, E1, E2

Places = Mapping[str, Sequence[int]]
"""Tier → numbers of the blocks that lie there."""

BLOCKS = 6


def holding(index: PrefixIndex, holder: Holder, places: Places) -> None:
    """Let a holder have these blocks of a prompt, and no others."""
    hashes = make.chains(make.prompt(BLOCKS))
    for tier, numbers in places.items():
        for number in numbers:
            index.blocks.store(holder, tier, [1000 + number], [hashes[number]])


def covered(places: Places, prompt: int = BLOCKS) -> Counts:
    index = PrefixIndex(16)
    holding(index, E1, places)
    bit = index.blocks.bits.find(E1)
    return coverage(index, make.chains(make.prompt(prompt)), bit).get(E1, (0, 0, 0))


def read_plainly(places: Places, prompt: int = BLOCKS) -> Counts:
    """The rule, word by word, with the walk from the root that lower tiers always have."""
    ends: list[int] = []
    for tier in TIERS:
        held, reached = set(places.get(tier, ())), max(ends, default=0)
        walks = []
        for start in {0, reached}:
            end = start
            while end < prompt and end in held:
                end += 1
            walks.append(end)
        ends.append(max(walks) if max(walks) > reached or tier == "gpu" else 0)
    npu, cpu, disk = ends
    return npu, max(0, cpu - npu), max(0, disk - max(npu, cpu))


@pytest.mark.parametrize(
    ("places", "counts"),
    [
        pytest.param({"gpu": range(3), "cpu": [3, 4]}, (3, 2, 0), id="the-worked-example"),
        pytest.param({"gpu": [0], "cpu": range(5)}, (1, 4, 0), id="longer-replica-below-short-hit"),
        pytest.param({"gpu": [0, 2], "cpu": [1]}, (1, 1, 0), id="a-hole-in-hbm-is-not-led-back"),
        pytest.param({"gpu": [0, 2, 3], "cpu": [1, 2]}, (1, 2, 0), id="a-replica-over-the-hole"),
        pytest.param({"cpu": range(2)}, (0, 2, 0), id="a-root-chain-in-cpu"),
        pytest.param({"disk": range(4), "gpu": [0]}, (1, 0, 3), id="a-root-chain-on-disk"),
        pytest.param({"gpu": [0], "cpu": [1], "disk": [2]}, (1, 1, 1), id="three-media"),
        pytest.param({"gpu": [0], "disk": [1], "cpu": [2]}, (1, 0, 1), id="disk-leads-not-up"),
        pytest.param({"gpu": range(3), "cpu": range(3)}, (3, 0, 0), id="two-copies-count-above"),
        pytest.param({"gpu": [1, 2], "cpu": [3]}, (0, 0, 0), id="nothing-without-the-first"),
        pytest.param({}, (0, 0, 0), id="nothing"),
    ],
)
def test_each_block_counts_where_the_rule_says(places: Places, counts: Counts) -> None:
    assert covered(places) == counts == read_plainly(places)


def test_a_prompt_shorter_than_what_is_held_is_the_limit() -> None:
    assert covered({"gpu": [0], "cpu": range(6)}, prompt=3) == (1, 2, 0)
    assert covered({"gpu": range(6)}, prompt=0) == (0, 0, 0)


PLACES = st.fixed_dictionaries(
    dict.fromkeys(TIERS, st.lists(st.integers(0, BLOCKS - 1), unique=True))
)


@given(places=PLACES, prompt=st.integers(0, BLOCKS))
def test_the_walk_by_masks_reads_the_rule(places: Places, prompt: int) -> None:
    assert covered(places, prompt) == read_plainly(places, prompt)


@given(first=PLACES, second=PLACES)
def test_holders_are_answered_as_if_each_were_alone(first: Places, second: Places) -> None:
    index = PrefixIndex(16)
    for holder, places in ((E1, first), (E2, second)):
        holding(index, holder, places)
    bits = index.blocks.bits.find(E1) | index.blocks.bits.find(E2)
    found = coverage(index, make.chains(make.prompt(BLOCKS)), bits)
    assert found.get(E1, (0, 0, 0)) == covered(first)
    assert found.get(E2, (0, 0, 0)) == covered(second)


@given(cuts=st.tuples(*[st.integers(0, BLOCKS)] * 3), replicas=PLACES)
def test_without_holes_above_it_is_the_router_s_walk(
    cuts: tuple[int, int, int], replicas: Places
) -> None:
    npu, cpu, disk = sorted(cuts)
    places = {
        "gpu": range(npu),
        "cpu": {*range(npu, cpu), *(n for n in replicas["cpu"] if n < cpu)},
        "disk": {*range(cpu, disk), *(n for n in replicas["disk"] if n < disk)},
    }
    index = PrefixIndex(16)
    holding(index, E1, {tier: sorted(numbers) for tier, numbers in places.items()})
    match = index.match([BASE], pack(make.prompt(BLOCKS)), 0.0).matches.get(E1)
    counts = counts_of(match) if match else (0, 0, 0)
    assert counts == covered({tier: sorted(numbers) for tier, numbers in places.items()})


def test_only_those_asked_for_and_credited_are_answered() -> None:
    index = PrefixIndex(16)
    for holder in (E1, E2):
        holding(index, holder, {"gpu": [0]})
    hashes, bits = make.chains(), index.blocks.bits
    assert list(coverage(index, hashes, bits.find(E2))) == [E2]
    bits.suspend(E2)
    assert coverage(index, hashes, bits.find(E2)) == {}


def test_larger_blocks_count_whole() -> None:
    index = PrefixIndex(16)
    hashes = make.chains(make.prompt(6))
    index.blocks.store(E1, "gpu", [1, 2], hashes[:4])
    index.blocks.store(E1, "gpu", [3], hashes[4:5])
    bit = index.blocks.bits.find(E1)
    assert coverage(index, hashes, bit)[E1] == (5, 0, 0)
    assert coverage(index, hashes[:3], bit)[E1] == (2, 0, 0)


def test_an_engine_with_a_sliding_window_is_credited_what_it_can_reuse() -> None:
    index = PrefixIndex(16)
    ledger = index.ledger(E1)
    ledger.apply(make.store_event(group=0, group_kind="full_attention"), "tiny")
    window = BlockStored(
        make.NAMES[:1], None, b"", 16, group=1, group_kind="sliding_window", window=17
    )
    ledger.apply(window, "tiny")
    bit = index.blocks.bits.find(E1)
    assert coverage(index, make.chains(), bit)[E1] == (1, 0, 0)


def test_tiers_of_other_names_count_for_nothing() -> None:
    assert by_tier({"NPU": 2, "gpu": 1, "host": 3, "nvme": 4, "tape": 5}) == (3, 3, 4)
