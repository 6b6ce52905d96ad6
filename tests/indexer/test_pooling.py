"""Pools on an index: who is credited with what they keep, in whatever order it is told."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from indexer import pooling
from indexer.block import Holder, Identity
from indexer.events import AllBlocksCleared, BlockRemoved, Change, PoolTold, Reason
from indexer.hashing import pack
from indexer.media import LOWER
from indexer.pooling import Pooling
from indexer.prefix_index import PrefixIndex
from tests.indexer import make
from tests.indexer.make import BASE, E1, E2, NAMES

POOL = Holder("pool")


class Bench:
    def __init__(self, block_size: int = 16) -> None:
        self.index = PrefixIndex(block_size, pools=True)
        assert self.index.pooling is not None
        self.pooling: Pooling = self.index.pooling
        self.pooling.members[POOL] = lambda told: (E1, E2) if told.node != "far" else ()
        self.pooling.elsewhere = dict.fromkeys((E1, E2), frozenset(LOWER))
        self.pool = self.index.ledger(POOL)
        self.e1, self.e2 = self.index.ledger(E1), self.index.ledger(E2)

    def tells(
        self, change: Change, names: Sequence[int] = (), tier: str = "cpu", node: str = "near"
    ) -> None:
        self.pool.apply(PoolTold(change, names, tier, node), "tiny")

    def tiers(self, holder: Holder = E1) -> dict[str, int]:
        match = self.index.match([BASE], pack(make.prompt()), 0.0).matches.get(holder)
        return dict(match.tiers) if match else {}


def test_what_an_engine_gives_away_counts_only_once_the_pool_has_it() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(tier="cpu"), "tiny")
    assert bench.tiers() == {}
    bench.tells(Change.STORED, NAMES[:2])
    assert bench.tiers(E1) == bench.tiers(E2) == {"cpu": 2}


def test_parts_of_a_block_count_neither_by_the_engine_s_word_nor_by_the_pool_s() -> None:
    bench = Bench(64)
    bench.e1.apply(make.store_event(tier="cpu"), "tiny")
    assert bench.tiers() == {}
    bench.e1.apply(make.store_event(), "tiny")
    bench.tells(Change.STORED, NAMES[3:])
    assert (bench.tiers(E1), bench.tiers(E2)) == ({"gpu": 1}, {})


def test_a_pool_may_speak_first() -> None:
    bench = Bench()
    bench.tells(Change.STORED, NAMES[1:3], tier="disk")
    bench.e1.apply(make.store_event(NAMES[:1]), "tiny")
    bench.e1.apply(make.store_event(NAMES[1:], make.prompt(3, 16), NAMES[0], tier="cpu"), "tiny")
    assert bench.tiers() == {"gpu": 1, "disk": 2}
    assert bench.tiers(E2) == {}


def test_names_are_known_after_the_engine_gave_its_blocks_up() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(), "tiny")
    bench.e1.apply(BlockRemoved(NAMES), "tiny")
    bench.tells(Change.STORED, NAMES)
    assert bench.tiers(E2) == {"cpu": 4}


def test_a_block_told_twice_is_gone_after_one_removal() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(), "tiny")
    for _ in range(2):
        bench.tells(Change.STORED, NAMES)
    bench.tells(Change.REMOVED, NAMES[2:])
    assert bench.tiers(E2) == {"cpu": 2}


def test_what_waits_can_be_removed_and_cleared() -> None:
    bench = Bench()
    bench.tells(Change.STORED, NAMES)
    bench.tells(Change.REMOVED, NAMES[1:])
    bench.tells(Change.STORED, NAMES, tier="disk")
    bench.tells(Change.CLEARED, tier="disk")
    bench.e1.apply(make.store_event(tier="cpu"), "tiny")
    assert bench.tiers() == {"cpu": 1}


def test_an_engine_s_own_word_on_the_pool_s_tier_takes_nothing_away() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(), "tiny")
    bench.tells(Change.STORED, NAMES)
    bench.e1.apply(BlockRemoved(NAMES, "cpu"), "tiny")
    bench.e1.apply(AllBlocksCleared(), "tiny")
    assert bench.tiers() == {"cpu": 4}


def test_what_nobody_else_tells_of_is_the_engine_s_to_tell() -> None:
    bench = Bench()
    bench.pooling.elsewhere.clear()
    bench.e1.apply(make.store_event(tier="cpu"), "tiny")
    assert bench.tiers() == {"cpu": 4}
    bench.e1.apply(BlockRemoved(NAMES[1:], "cpu"), "tiny")
    assert bench.tiers() == {"cpu": 1}


def test_a_pool_that_is_gone_or_cleared_leaves_engines_their_own() -> None:
    bench = Bench()
    for end in (bench.pool.drop, lambda: bench.tells(Change.CLEARED)):
        bench.e1.apply(make.store_event(NAMES[:1]), "tiny")
        bench.e1.apply(make.store_event(tier="cpu"), "tiny")
        bench.tells(Change.STORED, NAMES)
        assert bench.tiers() == {"gpu": 1, "cpu": 3}
        end()
        assert (bench.tiers(), bench.tiers(E2)) == ({"gpu": 1}, {})


def test_an_engine_that_restarts_loses_what_the_pool_kept_for_it() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(tier="cpu"), "tiny")
    bench.tells(Change.STORED, NAMES)
    bench.e1.drop()
    assert (bench.tiers(E1), bench.tiers(E2)) == ({}, {"cpu": 4})


def test_a_node_that_nobody_registered_on_is_counted() -> None:
    bench = Bench()
    bench.tells(Change.STORED, NAMES, node="far")
    assert bench.pool.rejected == {Reason.UNKNOWN_ENDPOINT: 1}


def test_what_a_pool_keeps_in_larger_blocks_counts_whole() -> None:
    bench = Bench()
    event = make.store_event([21, 22], make.prompt(4), block_size=32, tier="cpu")
    bench.e1.apply(event, "tiny")
    bench.tells(Change.STORED, [21])
    assert bench.tiers(E2) == {"cpu": 2}


def test_one_name_for_the_blocks_of_two_models_means_each_engine_s_own() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(tier="cpu"), "tiny")
    bench.e2.apply(make.store_event(tier="cpu"), "other")
    bench.tells(Change.STORED, NAMES)
    assert (bench.tiers(E1), bench.tiers(E2)) == ({"cpu": 4}, {})
    match = bench.index.match([Identity("other")], pack(make.prompt()), 0.0).matches
    assert {holder: found.blocks for holder, found in match.items()} == {E2: 4}


def test_a_name_of_another_model_goes_on_waiting() -> None:
    bench = Bench()
    bench.pooling.models = {E1: "tiny", E2: "other"}
    bench.tells(Change.STORED, NAMES)
    bench.e1.apply(make.store_event(tier="cpu"), "tiny")
    assert (bench.tiers(E1), bench.tiers(E2)) == ({"cpu": 4}, {})
    bench.e2.apply(make.store_event(tier="cpu"), "other")
    match = bench.index.match([Identity("other")], pack(make.prompt()), 0.0).matches
    assert {holder: found.blocks for holder, found in match.items()} == {E2: 4}


def test_lessons_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "MAX_LESSONS", 2)
    bench = Bench()
    bench.e1.apply(make.store_event(tier="cpu"), "tiny")
    bench.tells(Change.STORED, NAMES)
    assert bench.index.blocks.blocks(E1) == {"cpu": 2}


def test_names_that_wait_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pooling, "MAX_WAITING", 4)
    bench = Bench()
    bench.tells(Change.STORED, range(1, 7))
    assert bench.pool.rejected == {Reason.UNKNOWN_LOCATION: 2}
    bench.e1.apply(make.store_event([1], make.prompt(1), tier="cpu"), "tiny")
    assert bench.tiers() == {}


def test_a_pool_that_cannot_be_heard_is_doubted() -> None:
    bench = Bench()
    bench.e1.apply(make.store_event(tier="cpu"), "tiny")
    bench.tells(Change.STORED, NAMES)
    bench.pool.suspend(bench)
    bits = bench.index.blocks.bits
    assert bench.pooling.doubted_mask() == bits.find(E1) | bits.find(E2)
    bench.pool.resume(bench)
    assert bench.pooling.doubted_mask() == 0
