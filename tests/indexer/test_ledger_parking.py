"""Stores whose parent comes later: what is placed, and what was removed meanwhile."""

from __future__ import annotations

from indexer.events import BlockRemoved, Reason
from indexer.parking import MAX_PARKED_BLOCKS
from tests.indexer import make
from tests.indexer.ledgers import Bench
from tests.indexer.make import E1, E2, NAMES


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


def test_a_removal_leaves_alone_what_waits_in_another_tier() -> None:
    bench = Bench()
    e1, tail = bench.e1, make.prompt(1, 16)
    e1.apply(make.store_event(NAMES[:2]), "tiny")
    e1.apply(BlockRemoved(NAMES[:1]), "tiny")
    e1.apply(make.store_event(NAMES[1:2], tail, parent=NAMES[0], tier="cpu"), "tiny")
    e1.apply(BlockRemoved(NAMES[1:2]), "tiny")
    e1.apply(make.store_event(NAMES[:1]), "tiny")
    assert bench.matches()[E1].tiers == {"gpu": 1, "cpu": 1}


def test_what_waits_behind_a_removed_block_counts_once_that_is_back() -> None:
    bench = Bench()
    e1 = bench.e1
    e1.apply(make.store_event(NAMES[1:3], make.prompt(2, 16), parent=NAMES[0]), "tiny")
    e1.apply(make.store_event(NAMES[3:], make.prompt(1, 48), parent=NAMES[2]), "tiny")
    e1.apply(BlockRemoved(NAMES[2:3]), "tiny")
    e1.apply(make.store_event(NAMES[:1]), "tiny")
    assert bench.score() == 2
    e1.apply(make.store_event(NAMES[2:3], make.prompt(1, 32), parent=NAMES[1]), "tiny")
    assert bench.score() == 4
