"""What came to an index, what left it, and what did not count."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer.block import Holder
from indexer.events import BlockRemoved, Reason
from indexer.index import BlockIndex
from indexer.ledger import Ledger
from indexer.prefix_index import PrefixIndex
from indexer.speculative import Speculative
from indexer.storage import StorageLedger, shared_by
from indexer.turnover import Turnover
from tests.indexer import make
from tests.indexer.make import E1, E2, NAMES

A, B, C = range(101, 104)


def counted(index: BlockIndex) -> tuple[int, int]:
    return index.turnover.admitted, index.evicted


def copies(index: BlockIndex) -> tuple[int, int]:
    return index.turnover.removed, index.turnover.kept


def test_blocks_come_to_each_holder_and_tier_and_leave_it() -> None:
    index = BlockIndex(16)
    index.store(E1, "gpu", [1, 2, 3], [A, B, C])
    index.store(E2, "gpu", [1, 2], [A, B])
    index.store(E1, "cpu", [1], [A])
    assert counted(index) == (6, 0)
    index.remove(E1, "gpu", [2, 9])
    assert (counted(index), copies(index)) == ((6, 1), (1, 0))
    index.clear(E2)
    assert (counted(index), copies(index)) == ((6, 3), (1, 0))
    index.clear_tier(E1, "gpu")
    assert counted(index) == (6, 5)
    index.store(E2, "gpu", [1], [A])
    assert counted(index) == (7, 5)


def test_a_removal_takes_one_copy_and_the_last_one_takes_the_block() -> None:
    index = BlockIndex(16)
    for _ in range(3):
        index.store(E1, "gpu", [1], [A])
    assert counted(index) == (1, 0)
    for _ in range(2):
        index.remove(E1, "gpu", [1])
    assert (counted(index), copies(index)) == ((1, 0), (0, 2))
    index.remove(E1, "gpu", [1])
    assert (counted(index), copies(index)) == ((1, 1), (1, 2))


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["store", "remove", "clear", "clear_tier", "put"]),
        st.sampled_from([E1, E2]),
        st.sampled_from(["gpu", "cpu"]),
        st.integers(1, 4),
    ),
    max_size=60,
)


@given(STEPS)
def test_what_came_and_did_not_leave_is_there(steps: list[tuple[str, Holder, str, int]]) -> None:
    index = BlockIndex(16)
    left = 0
    for step, holder, tier, name in steps:
        match step:
            case "store":
                # Of one chain now and then another name, and of one name another chain.
                index.store(holder, tier, [name], [100 + name // 2])
            case "remove":
                index.remove(holder, tier, [name])
            case "clear":
                index.clear(holder)
            case "clear_tier":
                index.clear_tier(holder, tier)
            case _:
                index.locate(holder, tier, name)
        present = sum(sum(index.blocks(each).values()) for each in (E1, E2))
        admitted, evicted = counted(index)
        assert admitted - evicted == present
        assert evicted >= left
        left = evicted


GROUPED: Mapping[str, Any] = {"group": 0, "group_kind": "full_attention"}


def ledger() -> tuple[Ledger, Turnover]:
    index = BlockIndex(16)
    return Ledger(E1, index, Speculative(index.bits)), index.turnover


@pytest.mark.parametrize(
    ("fields", "skipped"),
    [
        ({"group_kind": "linear", "group": 0}, ("other", Reason.UNSUPPORTED_GROUP)),
        ({"group_kind": "sliding_window", "group": 0}, ("sliding_window", "unsupported_group")),
        ({"block_size": 24}, ("unknown", Reason.BLOCK_SIZE_MISMATCH)),
    ],
    ids=["kind", "window", "size"],
)
def test_a_store_that_does_not_count_is_told_by_kind_and_reason(
    fields: Mapping[str, Any], skipped: tuple[str, Reason]
) -> None:
    made, turnover = ledger()
    size = fields.get("block_size", 16)
    made.apply(make.store_event(tokens=range(4 * size), **fields), "tiny")
    assert turnover.skipped_stores == {skipped: 1}
    assert made.rejected == {skipped[1]: 1}


def test_removals_of_what_is_not_followed_are_told() -> None:
    made, turnover = ledger()
    made.apply(make.store_event(**GROUPED), "tiny")
    made.apply(BlockRemoved(NAMES[:1], group=0), "tiny")
    assert turnover.skipped_removals == {}
    made.apply(BlockRemoved(NAMES[1:2], group=3), "tiny")
    assert turnover.skipped_removals == {("unknown", Reason.MISSING_GROUP): 1}
    made.apply(make.store_event([7], parent=None, group=1, group_kind="linear"), "tiny")
    made.apply(BlockRemoved(NAMES[2:3], group=0), "tiny")
    assert turnover.skipped_removals["full_attention", Reason.UNSUPPORTED_GROUP] == 1


def test_shared_storage_tells_what_it_does_not_follow() -> None:
    index = BlockIndex(16)
    made = StorageLedger(shared_by("tiny"), index, Speculative(index.bits))
    made.apply(make.store_event(group=1, group_kind="mamba"), "tiny")
    assert index.turnover.skipped_stores == {("mamba", Reason.UNSUPPORTED_GROUP): 1}


def test_what_is_counted_outlives_the_engine_it_was_told_by() -> None:
    index = PrefixIndex(16)
    index.ledger(E1).apply(make.store_event(), "tiny")
    index.ledger(E1).apply(make.store_event(group=0, group_kind="linear"), "tiny")
    index.drop(E1)
    assert counted(index.blocks) == (4, 4)
    assert index.blocks.turnover.skipped_stores == {("other", Reason.UNSUPPORTED_GROUP): 1}
