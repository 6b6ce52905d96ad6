"""KV cache groups: a prefix counts as far as an engine with those groups reuses it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from indexer.block import Trust
from indexer.budget import STORED_BYTES
from indexer.events import Reason
from indexer.feed import Source
from indexer.groups import MAX_GROUPS, Groups, Need, cut
from indexer.hashing import pack
from indexer.holders import single_bits
from indexer.prefix_index import PrefixIndex
from indexer.walk import Ends
from tests.indexer import make
from tests.indexer.hybrid_engine import Group, HybridEngine, name_of
from tests.indexer.make import BASE, E1

INDEX_SIZE = 2

LAYOUTS = [
    [Group("full_attention", 2), Group("sliding_window", 2, 4)],
    [Group("sliding_window", 2, 6), Group("full_attention", 2), Group("mamba", 2)],
    [Group("full_attention", 2), Group("mamba", 4), Group("full_attention", 4)],
    [Group("full_attention", 2), Group("sliding_window", 6, 9), Group("sliding_window", 4, 1)],
    [Group("sliding_window", 2, 6)],
    [Group("full_attention", 4)],
]
PROMPTS = st.lists(st.integers(1, 2), min_size=8, max_size=24)


class Followed:
    """An engine and an index that hears of it."""

    def __init__(
        self, groups: Sequence[Group], tiers: Sequence[str], index_bytes: int | None = None
    ) -> None:
        self.engine = HybridEngine(groups, tiers)
        self.index = PrefixIndex(INDEX_SIZE, index_bytes=index_bytes)
        self.loses = False
        self.feed = self.index.open(Source(E1, "tcp://x", base_model="tiny"))
        self._seq = 0
        self._life = 1.0

    def tell(self, *events: object) -> None:
        if not self.loses:
            # Engines say when they send: another process sends nothing to the letter again.
            message = make.frames(self._seq, *events, ts=self._life + self._seq / 1e6)
            self.feed.receive(message, 1.0)
        self._seq += 1

    def restart(self) -> None:
        """The engine is another process: it is empty and counts from 0."""
        self.engine.clear()
        self._seq = 0
        self._life += 1.0

    def credited(self, tokens: Sequence[int]) -> int:
        match = self.index.match([BASE], pack(tokens), 0.0).matches.get(E1)
        return match.blocks * INDEX_SIZE if match else 0

    def serve(self, data: st.DataObject) -> None:
        """A prompt is computed: every group stores what it keeps of it, in any order."""
        tokens = data.draw(PROMPTS)
        tier = data.draw(st.sampled_from(self.engine.tiers))
        events = []
        for number in data.draw(st.permutations(range(len(self.engine.groups)))):
            group = self.engine.groups[number]
            blocks = range(len(tokens) // group.size)
            if group.kind == "full_attention" or len(self.engine.groups) == 1:
                start = self._first_missing(number, tokens)
                kept = list(blocks[start:])
            else:
                start, kept = 0, sorted(data.draw(st.sets(st.sampled_from(blocks or [0]))))
                kept = [block for block in kept if block in blocks]
            if kept or group.kind != "full_attention":
                events.append(self.engine.store(number, tier, tokens, start, kept))
        self.tell(*events)

    def _first_missing(self, number: int, tokens: Sequence[int]) -> int:
        size = self.engine.groups[number].size
        start = 0
        while start < len(tokens) // size and self.engine.holds(
            number, name_of(tokens[: (start + 1) * size])
        ):
            start += 1
        return start

    def evict(self, data: st.DataObject) -> None:
        held = self.engine.held()
        if held:
            self.tell(self.engine.remove(*data.draw(st.sampled_from(held))))


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(LAYOUTS), st.sampled_from([("GPU",), ("GPU", "CPU")]), st.data())
def test_what_is_credited_is_what_the_engine_reuses(
    groups: Sequence[Group], tiers: Sequence[str], data: st.DataObject
) -> None:
    followed = Followed(groups, tiers)
    followed.serve(data)
    for _ in range(data.draw(st.integers(0, 12))):
        step = data.draw(st.sampled_from(["serve", "evict", "evict", "clear"]))
        if step == "serve":
            followed.serve(data)
        elif step == "evict":
            followed.evict(data)
        else:
            followed.tell(followed.engine.clear())
        tokens = data.draw(PROMPTS)
        assert followed.credited(tokens) == followed.engine.reuse(tokens)
        assert followed.credited(tokens[:-1]) == followed.engine.reuse(tokens[:-1])
    assert (followed.feed.trust, followed.feed.rejected) == (Trust.EXACT, {})
    for held in followed.engine.held():
        for _ in range(followed.engine.copies[held[0], held[1]][held[2]]):
            followed.tell(followed.engine.remove(*held))
    sizes = make.swept(followed.index._index).sizes()
    assert set(sizes.values()) == {0}


@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.sampled_from(LAYOUTS),
    st.none() | st.integers(0, 12).map(lambda blocks: blocks * STORED_BYTES),
    st.data(),
)
def test_what_is_called_exact_never_exceeds_the_truth(
    groups: Sequence[Group], index_bytes: int | None, data: st.DataObject
) -> None:
    """Messages are lost, the engine restarts, the index has little room."""
    followed = Followed(groups, ("GPU", "CPU"), index_bytes)
    steps = st.sampled_from(["serve", "serve", "evict", "evict", "clear", "restart", "lose"])
    for step in data.draw(st.lists(steps, min_size=2, max_size=14)):
        followed.loses = step == "lose"
        if step in ("serve", "lose"):
            followed.serve(data)
        elif step == "evict":
            followed.evict(data)
        elif step == "clear":
            followed.tell(followed.engine.clear())
        else:
            followed.restart()
            followed.serve(data)
        tokens = data.draw(PROMPTS)
        # What is lost shows in the next message, and a restart that hears nothing in the next.
        if not followed.loses and followed.feed.trust is Trust.EXACT:
            assert followed.credited(tokens) <= followed.engine.reuse(tokens)
            if index_bytes is None:
                assert followed.credited(tokens) == followed.engine.reuse(tokens)
    if index_bytes is not None:
        assert followed.index.stats().bytes <= index_bytes


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_blocks_of_a_window_that_nothing_names_are_not_credited(data: st.DataObject) -> None:
    """Only names at the end of a larger block are told with their tokens."""
    followed = Followed([Group("full_attention", 4), Group("sliding_window", 2, 5)], ("GPU",))
    for _ in range(data.draw(st.integers(1, 6))):
        followed.serve(data)
        followed.evict(data)
        tokens = data.draw(PROMPTS)
        assert followed.credited(tokens) <= followed.engine.reuse(tokens)


NEEDS = [Need(1, 1, 2), Need(2, 2, 1), Need(3, 1, None)]
ROWS = st.fixed_dictionaries(
    {need: st.lists(st.integers(0, 7), min_size=9, max_size=9) for need in NEEDS}
)


@given(
    ROWS,
    st.dictionaries(st.sampled_from(NEEDS), st.integers(1, 7)),
    st.lists(st.integers(0, 9), min_size=3, max_size=3),
)
def test_a_cut_leaves_the_longest_prefix_that_all_needs_allow(
    rows: dict[Need, list[int]], needing: dict[Need, int], lengths: list[int]
) -> None:
    ends: Ends = {}
    for number, blocks in enumerate(lengths):
        ends[blocks] = ends.get(blocks, 0) | 1 << number
    results = cut(ends, needing, lambda need, number: rows[need][number])
    by_bit = {bit: end for end, mask in results.items() for bit in single_bits(mask)}
    for number, blocks in enumerate(lengths):
        bit = 1 << number
        needs = [need for need, mask in needing.items() if mask & bit]
        allowed = [k for k in range(blocks + 1) if all(_allows(n, rows[n], k, bit) for n in needs)]
        assert by_bit[bit] == max(allowed)


def _allows(need: Need, row: Sequence[int], blocks: int, bit: int) -> bool:
    whole = blocks // need.unit
    first = 0 if need.window is None else max(0, whole - need.window)
    return blocks % need.unit == 0 and all(row[at] & bit for at in range(first, whole))


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"group_kind": "sliding_window"}, Reason.UNSUPPORTED_GROUP),
        ({"group_kind": "cross_attention"}, Reason.UNSUPPORTED_GROUP),
        ({"group_kind": None}, Reason.SEVERAL_GROUPS),
        ({"group_kind": "mamba", "block_size": 24}, Reason.BLOCK_SIZE_MISMATCH),
        ({"group_kind": "full_attention", "group": MAX_GROUPS}, Reason.SEVERAL_GROUPS),
    ],
    ids=["no window", "another kind", "no kind", "another size", "too many"],
)
def test_a_group_that_is_not_understood_refuses_the_engine(
    fields: dict[str, Any], reason: Reason
) -> None:
    groups = Groups(16)
    assert groups.learn(make.store_event(group=0, group_kind="full_attention"))
    assert not groups.learn(make.store_event(group=0, group_kind="full_attention"))
    assert (groups.refused, groups.needs) == (None, ())
    assert groups.learn(make.store_event([], [], **{"group": 1, **fields}))
    assert groups.refused is reason


def test_small_blocks_are_refused_only_where_there_are_several_groups() -> None:
    groups = Groups(16)
    groups.learn(make.store_event(group=0, group_kind="full_attention", block_size=8))
    assert groups.refused is None
    groups.learn(make.store_event(group=1, group_kind="mamba"))
    assert groups.refused is Reason.BLOCK_SIZE_MISMATCH


def test_a_location_alone_tells_nothing_of_a_group() -> None:
    groups = Groups(16)
    assert not groups.learn(make.store_event([1], [], group=3, block_size=0))
    assert groups.complete


def test_a_hole_in_the_numbers_is_a_group_that_was_not_heard_of() -> None:
    groups = Groups(16)
    groups.learn(make.store_event(group=0, group_kind="full_attention"))
    groups.learn(make.store_event(group=2, group_kind="mamba"))
    assert not groups.complete
    groups.learn(make.store_event(group=1, group_kind="full_attention"))
    assert groups.complete
    assert groups.needs == (Need(2, 1, 1), Need(1, 1, None))


def test_a_removal_from_a_group_that_no_store_named_is_one_from_the_prefix() -> None:
    groups = Groups(16)
    assert groups.further_of(0) == groups.further_of(None) == (None,)
    groups.learn(make.store_event(group=0, group_kind="full_attention"))
    assert (groups.further_of(0), groups.further_of(1)) == ((None,), (1,))
