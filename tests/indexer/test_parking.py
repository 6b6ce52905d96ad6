"""Parked stores."""

from __future__ import annotations

from indexer.events import BlockRemoved
from indexer.parking import Parked, Parking
from tests.indexer import make


def test_hands_out_what_waits_for_a_parent_once() -> None:
    parking = Parking()
    first, second = make.store_event([2]), make.store_event([3])
    assert parking.park(first, 1) == 0
    assert parking.park(second, 1) == 0
    assert parking.blocks == 2
    assert parking.take(1) == [Parked(first, set()), Parked(second, set())]
    assert parking.take(1) == []
    assert (parking.blocks, parking._parents, parking._waiting) == (0, {}, {})


def test_the_oldest_give_way_when_it_is_full() -> None:
    parking = Parking(max_blocks=4)
    for name in range(5):
        dropped = parking.park(make.store_event([name]), parent=100 + name)
    assert dropped == 1
    assert parking.take(100) == []
    assert parking.blocks == 4


def test_a_store_larger_than_the_bound_is_not_kept() -> None:
    parking = Parking(max_blocks=3)
    assert parking.park(make.store_event([1, 2, 3, 4]), 9) == 1
    assert parking.blocks == 0


def test_a_removed_block_is_marked_since_those_behind_it_need_it() -> None:
    parking = Parking()
    store = make.store_event([2, 3, 4])
    parking.park(store, 1)
    assert parking.remove(BlockRemoved([3, 77])) == [77]
    assert parking.remove(BlockRemoved([3])) == [3]
    assert parking.take(1) == [Parked(store, {3})]


def test_a_removal_means_one_copy_in_its_own_tier_and_group() -> None:
    parking = Parking()
    parking.park(make.store_event([2, 3]), 1)
    parking.park(make.store_event([2], tier="cpu"), 1)
    parking.park(make.store_event([2], group=1), 1)
    assert parking.remove(BlockRemoved([2], tier="disk")) == [2]
    assert parking.remove(BlockRemoved([2], group=2)) == [2]
    assert parking.remove(BlockRemoved([2], tier="cpu")) == []
    assert [parked.store.tier for parked in parking.take(1)] == ["gpu", "gpu"]


def test_a_store_of_which_nothing_is_left_is_forgotten() -> None:
    parking = Parking()
    parking.park(make.store_event([2, 3]), 1)
    parking.park(make.store_event([3, 4]), 1)
    assert parking.remove(BlockRemoved([3, 2])) == []
    assert parking.blocks == 2
    assert parking.remove(BlockRemoved([3, 4])) == []
    assert (parking.blocks, parking._parents, parking._waiting) == (0, {}, {})


def test_clearing_forgets_all() -> None:
    parking = Parking()
    parking.park(make.store_event([2]), 1)
    parking.clear()
    assert parking.blocks == 0
    assert parking.take(1) == []
    assert parking.remove(BlockRemoved([2])) == [2]
