"""Ledgers: events of one holder become blocks that prompts match, or do not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.block import Holder, Identity, Match
from indexer.budget import Budget
from indexer.events import AllBlocksCleared, BlockRemoved, BlockStored, Event, Reason
from indexer.hashing import block_hashes, pack, root
from indexer.index import BlockIndex
from indexer.ledger import Ledger
from indexer.shelves import MAX_TIERS
from indexer.speculative import Speculative
from tests.indexer import make
from tests.indexer.ledgers import Bench
from tests.indexer.make import BASE, E1, E2, NAMES


def test_stored_blocks_match_and_removed_ones_do_not() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(), "tiny")
    assert bench.matches() == {E1: Match(4, {"gpu": 4}, 4)}
    bench.e1.apply(BlockRemoved([NAMES[2]]), "tiny")
    assert bench.score() == 2
    bench.e1.apply(BlockRemoved(NAMES), "tiny")
    assert bench.matches() == {}


def test_a_store_continues_its_parent() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(NAMES[:2]), "tiny")
    bench.e1.apply(make.store_event(NAMES[2:], make.prompt(2, 32), parent=NAMES[1]), "tiny")
    assert bench.score() == 4


@pytest.mark.parametrize(
    ("identity", "expected"),
    [
        (BASE, {E1: 0, E2: 0}),
        (Identity("tiny", "A"), {E1: 4, E2: 0}),
        (Identity("tiny", "B"), {E1: 0, E2: 0}),
        (Identity("tiny", None, "s1"), {E1: 0, E2: 4}),
        (Identity("tiny", None, "s2"), {E1: 0, E2: 0}),
        (Identity("tiny", "A", "s1"), {E1: 0, E2: 0}),
        (Identity("other", "A"), {E1: 0, E2: 0}),
    ],
)
def test_identities_do_not_share_blocks(identity: Identity, expected: dict[Holder, int]) -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(lora="A"), "tiny")
    bench.ledgers[E2].apply(make.store_event(salt="s1"), "tiny")
    assert {holder: bench.score(identity, holder) for holder in (E1, E2)} == expected


def test_an_adapter_without_a_name_matches_no_request() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(unnamed_adapter=1), "tiny")
    for lora in (None, "1", ""):
        assert bench.score(Identity("tiny", lora)) == 0


def test_an_image_counts_for_its_owner_from_its_first_block_on() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(media={2: ["x"]}), "tiny")
    bench.ledgers[E2].apply(make.store_event(media={2: ["y"]}), "tiny")
    matches = bench.matches(media={2: ["x"]})
    assert {holder: match.blocks for holder, match in matches.items()} == {E1: 4, E2: 2}


def test_a_clear_takes_blocks_guesses_and_parked_stores() -> None:
    bench = Bench()
    for ledger in bench.ledgers.values():
        ledger.apply(make.store_event(NAMES[:2]), "tiny")
    bench.e1.apply(make.store_event([99], parent=98), "tiny")
    bench.guesses.record(E1, make.chains(), 9.0)
    bench.e1.apply(AllBlocksCleared(), "tiny")
    assert bench.matches() == {E2: Match(2, {"gpu": 2}, 2)}
    assert (bench.e1.parked_blocks, bench.guesses.masks) == (0, {})


def test_blocks_stored_after_a_clear_in_the_same_batch_count() -> None:
    bench = Bench()
    for event in (make.store_event(), AllBlocksCleared(), make.store_event(NAMES[:1])):
        bench.e1.apply(event, "tiny")
    assert bench.score() == 1


def test_a_clear_of_one_tier_leaves_the_other() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(), "tiny")
    bench.e1.apply(make.store_event(NAMES[:2], tier="cpu"), "tiny")
    bench.e1.apply(AllBlocksCleared("gpu"), "tiny")
    assert bench.matches() == {E1: Match(2, {"cpu": 2}, 2)}
    bench.e1.apply(AllBlocksCleared("disk"), "tiny")
    assert bench.score() == 2
    bench.e1.apply(AllBlocksCleared("cpu"), "tiny")
    assert bench.matches() == {}


def test_a_clear_of_the_only_tier_takes_no_pass() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(), "tiny")
    bit = bench.index.bits.find(E1)
    bench.e1.apply(AllBlocksCleared("gpu"), "tiny")
    assert bench.matches() == {}
    assert bench.index.bits.retired == bit


def test_a_store_confirms_guesses_and_a_removal_overrules_them() -> None:
    bench = Bench()
    hashes = make.chains()
    bench.guesses.record(E1, hashes, 9.0)
    assert bench.matches()[E1] == Match(0, {}, 4)
    bench.e1.apply(make.store_event(NAMES[:3]), "tiny")
    assert bench.guesses.stats.confirmed == 3
    assert bench.matches()[E1] == Match(3, {"gpu": 3}, 4)
    bench.guesses.record(E1, hashes, 9.0)
    bench.e1.apply(BlockRemoved(NAMES[:1]), "tiny")
    assert bench.matches() == {}


def test_a_larger_block_is_split_and_its_children_continue_it() -> None:
    bench = Bench()
    big = make.store_event([1], make.prompt(), block_size=64, media={0: ["x"]})
    bench.e1.apply(make.store_event([2], make.prompt(4, 64), 1, block_size=64), "tiny")
    bench.e1.apply(big, "tiny")
    media: dict[int, list[str | bytes]] = {number: ["x"] for number in range(4)}
    assert bench.matches(make.prompt(8), media=media)[E1].blocks == 8
    bench.e1.apply(BlockRemoved([1]), "tiny")
    assert bench.matches(make.prompt(8), media=media) == {}
    assert bench.e1.block_size == 64


@pytest.mark.parametrize("size", [12, 24])
def test_a_block_size_that_does_not_fit_is_refused_and_named(size: int) -> None:
    bench = Bench()
    bench.e1.apply(make.store_event([1], list(range(size)), block_size=size), "tiny")
    assert bench.e1.rejected == {Reason.BLOCK_SIZE_MISMATCH: 1}
    assert bench.e1.block_size == size
    assert bench.matches() == {}


def test_a_location_without_tokens_counts_for_blocks_that_were_stored() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(), "tiny")
    for name in (NAMES[0], 999):
        bench.e1.apply(make.store_event([name], [], block_size=0, tier="cpu"), "tiny")
    bench.e1.apply(BlockRemoved(NAMES), "tiny")
    assert bench.matches() == {E1: Match(1, {"cpu": 1}, 1)}
    assert bench.e1.rejected == {Reason.UNKNOWN_LOCATION: 1}


@pytest.mark.parametrize("kind", ["full_attention", "mla_attention", "sink_full_attention"])
def test_kinds_that_need_a_prefix_only_are_credited(kind: str) -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(group=0, group_kind=kind), "tiny")
    assert bench.score() == 4


@pytest.mark.parametrize(
    "kind",
    [
        "sliding_window",
        "chunked_local_attention",
        "sliding_window_mla",
        "unknown",
        "cross_attention",
        "new",
    ],
)
def test_an_engine_with_another_kind_is_credited_nothing_until_it_restarts(kind: str) -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(group=0, group_kind="full_attention"), "tiny")
    bench.e1.apply(make.store_event([50], group=1, group_kind=kind), "tiny")
    bench.e1.apply(make.store_event(group=0, group_kind="full_attention"), "tiny")
    bench.guesses.record(E1, make.chains(), 9.0)
    assert bench.matches() == {}
    assert bench.e1.refused is Reason.UNSUPPORTED_GROUP
    assert bench.e1.rejected == {Reason.UNSUPPORTED_GROUP: 2}
    bench.e1.apply(AllBlocksCleared(), "tiny")
    assert bench.e1.refused is Reason.UNSUPPORTED_GROUP
    bench.e1.drop()
    bench.e1.apply(make.store_event(group=0, group_kind="full_attention"), "tiny")
    assert bench.score() == 4


def test_groups_that_are_not_told_apart_are_credited_nothing() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(group=0), "tiny")
    assert bench.score() == 4
    bench.e1.apply(make.store_event(group=1), "tiny")
    assert (bench.score(), bench.e1.refused) == (0, Reason.SEVERAL_GROUPS)


def test_nothing_is_credited_before_all_groups_were_heard_of() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(group=1, group_kind="full_attention"), "tiny")
    assert (bench.score(), bench.e1.refused) == (0, Reason.MISSING_GROUP)
    bench.e1.apply(make.store_event(NAMES[:3], group=0, group_kind="full_attention"), "tiny")
    assert (bench.score(), bench.e1.refused) == (3, None)


def _window(names: Sequence[int], **fields: Any) -> BlockStored:
    """Names that a group with a window of 20 tokens keeps of some longer prompt."""
    kind: dict[str, Any] = {"group": 1, "group_kind": "sliding_window", "window": 20}
    return make.store_event(names, [], **kind | fields)


def test_a_prefix_ends_where_a_sliding_window_is_there() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(group=0, group_kind="full_attention"), "tiny")
    bench.e1.apply(_window(NAMES[1:3]), "tiny")
    assert bench.score() == 3
    bench.e1.apply(BlockRemoved(NAMES[1:2], group=1), "tiny")
    assert bench.score() == 0
    bench.e1.apply(_window(NAMES[:2]), "tiny")
    bench.e1.apply(BlockRemoved(NAMES[2:3], group=0), "tiny")
    assert bench.score() == 2


def test_a_windows_blocks_may_be_told_before_anybody_said_what_they_are() -> None:
    bench = Bench()
    bench.e1.apply(_window([*NAMES[2:], 99, 98]), "tiny")
    bench.e1.apply(BlockRemoved([99], group=1), "tiny")
    bench.e1.apply(make.store_event(group=0, group_kind="full_attention"), "tiny")
    assert bench.score() == 4
    assert bench.index.sizes()["claims"] == 1
    bench.e1.apply(BlockRemoved([98], group=1), "tiny")
    assert bench.index.sizes()["claims"] == 0


def test_a_removal_without_a_group_takes_a_block_from_all() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(group=0, group_kind="full_attention"), "tiny")
    bench.e1.apply(_window(NAMES), "tiny")
    bench.e1.apply(BlockRemoved(NAMES[3:]), "tiny")
    assert bench.score() == 3
    bench.e1.apply(make.store_event(NAMES[3:], make.prompt(1, 48), NAMES[2], group=0), "tiny")
    assert bench.score() == 3


def test_a_store_that_names_no_group_is_left_out_where_there_are_several() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(group=0, group_kind="full_attention"), "tiny")
    bench.e1.apply(_window([]), "tiny")
    bench.e1.apply(make.store_event(), "tiny")
    assert bench.e1.rejected == {Reason.SEVERAL_GROUPS: 1}
    assert bench.score() == 0


def test_an_engine_without_a_group_that_needs_all_goes_by_its_windows() -> None:
    bench = Bench()
    bench.e1.apply(_window([], group=0), "tiny")
    assert bench.score() == 0
    stored = make.store_event(group=0, group_kind="sliding_window", window=20)
    bench.e1.apply(stored, "tiny")
    assert bench.score() == 4
    bench.e1.apply(BlockRemoved(NAMES[:2], group=0), "tiny")
    assert bench.matches() == {E1: Match(4, {"gpu": 4}, 4)}
    bench.e1.apply(BlockRemoved(NAMES[2:3], group=0), "tiny")
    assert bench.score() == 0


def test_a_guess_reaches_as_far_as_all_groups_would() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(NAMES[:2], group=0, group_kind="full_attention"), "tiny")
    bench.e1.apply(_window(NAMES[1:2]), "tiny")
    assert bench.score() == 0
    bench.guesses.record(E1, make.chains(), 9.0)
    assert bench.matches()[E1].speculative == 4
    bench.e1.apply(AllBlocksCleared(), "tiny")
    bench.e1.apply(make.store_event(group=0, group_kind="full_attention"), "tiny")
    assert bench.score() == 0


def test_tiers_beyond_the_bound_are_refused() -> None:
    bench = Bench()
    for number in range(MAX_TIERS):
        bench.e1.apply(make.store_event(tier=f"tier-{number}"), "tiny")
    assert bench.e1.rejected == {Reason.TOO_MANY_TIERS: 2}


def test_a_suspended_holder_is_credited_only_when_no_cause_is_left() -> None:
    bench = Bench()
    bench.e1.suspend("one")
    bench.e1.suspend("two")
    bench.e1.apply(make.store_event(), "tiny")
    assert bench.score() == 0
    bench.e1.resume("one")
    assert bench.score() == 0
    bench.e1.resume("two")
    assert bench.score() == 4


SMALL = st.integers(0, 5)
STORES = st.builds(
    lambda names, size, whole, **fields: BlockStored(
        names, tokens=pack([1] * (size * len(names))) if whole else b"", block_size=size, **fields
    ),
    names=st.lists(SMALL, max_size=5, unique=True),
    size=st.sampled_from([0, 1, 2, 3, 4, 8, 12]),
    whole=st.booleans(),
    parent=st.none() | SMALL,
    tier=st.sampled_from(["gpu", "cpu", "disk"]),
    group=st.none() | st.integers(0, 3),
    group_kind=st.sampled_from([None, "full_attention", "sliding_window", "mamba", "new"]),
    window=st.none() | st.integers(0, 20),
    media=st.none() | st.dictionaries(st.integers(0, 4), st.just(["m"])),
)
EVENTS = st.one_of(
    STORES,
    STORES,
    st.builds(BlockRemoved, st.lists(SMALL), st.sampled_from(["gpu", "cpu"]), st.none() | SMALL),
    st.builds(AllBlocksCleared, st.sampled_from([None, "gpu", "cpu"])),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(EVENTS, max_size=14), st.sampled_from([None, 2000]))
def test_no_events_make_it_raise_or_leave_anything_behind(
    events: list[Event], index_bytes: int | None
) -> None:
    index = BlockIndex(4, budget=Budget(index_bytes))
    ledger = Ledger(E1, index, Speculative(index.bits))
    for event in events:
        ledger.apply(event, "tiny")
        hashes = block_hashes(pack([1] * 12), 4, root(BASE))
        for match in index.match(hashes).values():
            assert sum(match.tiers.values()) == match.blocks <= match.speculative
        assert index_bytes is None or index.bytes() <= index_bytes
    ledger.drop()
    assert set(make.swept(index).sizes().values()) == {0}
    assert (ledger.pieces, ledger.parked_blocks, ledger.refused) == (0, 0, None)
