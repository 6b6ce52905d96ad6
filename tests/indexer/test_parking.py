"""Parked stores."""

from __future__ import annotations

from indexer.parking import Parking
from tests.indexer import make


def test_hands_out_what_waits_for_a_parent_once() -> None:
    parking = Parking()
    first, second = make.store_event([2]), make.store_event([3])
    assert parking.park(first, 1) == 0
    assert parking.park(second, 1) == 0
    assert parking.blocks == 2
    assert parking.take(1) == [first, second]
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


def test_a_removed_block_goes_with_those_that_follow_it() -> None:
    parking = Parking()
    parking.park(make.store_event([2, 3, 4]), 1)
    parking.remove([3, 77])
    (kept,) = parking.take(1)
    assert kept == make.store_event([2])
    parking.park(make.store_event([2, 3]), 1)
    parking.park(make.store_event([5]), 1)
    parking.remove([2])
    assert parking.take(1) == [make.store_event([5])]


def test_clearing_forgets_all() -> None:
    parking = Parking()
    parking.park(make.store_event([2]), 1)
    parking.clear()
    assert parking.blocks == 0
    assert parking.take(1) == []
    parking.remove([2])
