"""Shelves: one per tier, size and group, in the order in which they count."""

from __future__ import annotations

from indexer.shelves import MAX_SHELVES, MAX_TIERS, Shelves


def test_a_shelf_is_made_once() -> None:
    shelves = Shelves(("gpu", "cpu"))
    assert shelves.get("gpu") is shelves.get("gpu", 1, None)
    assert shelves.get("gpu", 2) is not shelves.get("gpu")
    assert shelves.get("gpu", 1, 3) is not shelves.get("gpu")


def test_tiers_are_in_order_and_larger_units_first() -> None:
    shelves = Shelves(("gpu", "cpu"))
    for tier, unit in (("disk", 1), ("cpu", 1), ("cpu", 4), ("gpu", 1)):
        shelves.get(tier, unit)
    shelves.get("gpu", 1, group=1)
    told = [(shelf.tier, shelf.unit) for shelf in shelves.prefix]
    assert told == [("gpu", 1), ("cpu", 4), ("cpu", 1), ("disk", 1)]
    assert [shelf.unit for shelf in shelves.find("cpu")] == [4, 1]
    assert [shelf.group for shelf in shelves.find("gpu", 1)] == [1]
    assert shelves.find("gpu", 2) == ()
    assert shelves.of_group(1) == list(shelves.find("gpu", 1))


def test_one_unit_is_told_apart_from_several() -> None:
    shelves = Shelves(("gpu", "cpu"))
    assert shelves.unit == 1
    shelves.get("gpu", 4)
    shelves.get("gpu", 1, group=1)
    assert shelves.unit == 4
    shelves.get("cpu", 1)
    assert shelves.unit == 0


def test_empty_shelves_are_given_up() -> None:
    shelves = Shelves(("gpu", "cpu"))
    shelves.get("gpu").table[5] = 1
    shelves.get("cpu", 4).table[5] = 2
    assert shelves.present(5) == 3
    shelves.get("cpu", 4).table.clear()
    shelves.prune()
    assert (shelves.unit, len(shelves.tables), shelves.present(5)) == (1, 1, 1)


def test_tiers_and_shelves_are_bounded() -> None:
    shelves = Shelves(("gpu", "cpu"))
    for number in range(MAX_TIERS - 2):
        assert shelves.admits(f"tier-{number}")
        shelves.get(f"tier-{number}")
    assert not shelves.admits("one more")
    assert shelves.admits("cpu")
    for unit in range(1, MAX_SHELVES):
        if shelves.admits("gpu", unit):
            shelves.get("gpu", unit)
    assert len(shelves.tables) == MAX_SHELVES
    assert not shelves.admits("gpu", 999)
    assert shelves.admits("gpu", 2)
