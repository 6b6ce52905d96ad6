"""Ledgers: events of one holder become blocks that prompts match, or do not."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from indexer.block import Holder, Identity, Match
from indexer.events import AllBlocksCleared, BlockRemoved, Reason
from indexer.hashing import block_hashes, pack, root
from indexer.index import MAX_TIERS, BlockIndex
from indexer.ledger import Ledger
from indexer.parking import MAX_PARKED_BLOCKS
from indexer.speculative import Speculative
from tests.indexer import make
from tests.indexer.make import BASE, E1, E2, NAMES


class Bench:
    """An index with ledgers on it."""

    def __init__(self, block_size: int = 16) -> None:
        self.index = BlockIndex(block_size)
        self.guesses = Speculative(self.index.bits)
        self.ledgers = {h: Ledger(h, self.index, self.guesses) for h in (E1, E2)}
        self.e1 = self.ledgers[E1]

    def matches(
        self,
        tokens: Sequence[int] | None = None,
        identity: Identity = BASE,
        media: dict[int, list[str | bytes]] | None = None,
    ) -> dict[Holder, Match]:
        ids = make.prompt() if tokens is None else tokens
        hashes = block_hashes(pack(ids), self.index.block_size, root(identity), media)
        return self.index.match(hashes, self.guesses.masks)

    def score(self, identity: Identity = BASE, holder: Holder = E1) -> int:
        match = self.matches(identity=identity).get(holder)
        return match.blocks if match else 0


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


def test_a_child_waits_for_its_parent_and_is_never_rooted() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event([14], make.prompt(1, 64), parent=NAMES[3]), "tiny")
    bench.e1.apply(make.store_event(NAMES[2:], make.prompt(2, 32), parent=NAMES[1]), "tiny")
    assert bench.e1.parked_blocks == 3
    assert bench.matches(make.prompt(1, 64)) == bench.matches(make.prompt(2, 32)) == {}
    bench.e1.apply(make.store_event(NAMES[:2]), "tiny")
    assert bench.matches(make.prompt(5))[E1].blocks == 5
    assert bench.e1.parked_blocks == 0


def test_a_parent_that_only_another_engine_has_does_not_count() -> None:
    bench = Bench()
    bench.ledgers[E2].apply(make.store_event(NAMES[:2]), "tiny")
    bench.e1.apply(make.store_event(NAMES[2:], make.prompt(2, 32), parent=NAMES[1]), "tiny")
    assert bench.e1.parked_blocks == 2


def test_a_block_removed_while_it_waited_is_not_placed() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(NAMES[1:], make.prompt(3, 16), parent=NAMES[0]), "tiny")
    bench.e1.apply(BlockRemoved([NAMES[2]]), "tiny")
    bench.e1.apply(make.store_event(NAMES[:1]), "tiny")
    assert bench.score() == 2


def test_a_full_parking_lot_drops_the_oldest_and_says_so() -> None:
    bench = Bench()
    for number in range(MAX_PARKED_BLOCKS + 5):
        bench.e1.apply(make.store_event([1000 + number], parent=1), "tiny")
    assert bench.e1.rejected[Reason.PARKED_OVERFLOW] > 0
    assert bench.e1.parked_blocks <= MAX_PARKED_BLOCKS


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


@pytest.mark.parametrize("size", [8, 24])
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
    "kind", ["sliding_window", "mamba", "sliding_window_mla", "unknown", "cross_attention", "new"]
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


def test_an_engine_with_several_groups_is_credited_nothing() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(group=1, group_kind="full_attention"), "tiny")
    assert bench.score() == 4
    bench.e1.apply(make.store_event(group=0, group_kind="full_attention"), "tiny")
    assert (bench.score(), bench.e1.refused) == (0, Reason.SEVERAL_GROUPS)


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
