"""One holder's share of a table."""

from __future__ import annotations

from indexer.holding import Holding, Table


def test_the_last_copy_taken_gives_the_block_up() -> None:
    holding, table = Holding(0b10), Table({7: 0b01})
    holding.add("gpu", table, 7, count_repeats=True)
    holding.add("gpu", table, 7, count_repeats=True)
    assert (table, holding.blocks) == ({7: 0b11}, {"gpu": 1})
    assert not holding.take("gpu", table, 7)
    assert table == {7: 0b11}
    assert holding.take("gpu", table, 7)
    assert (table, holding.blocks) == ({7: 0b01}, {"gpu": 0})
    assert not holding.take("gpu", table, 7)


def test_dropping_takes_all_copies() -> None:
    holding, table = Holding(0b10), Table()
    for _ in range(3):
        holding.add("gpu", table, 7, count_repeats=True)
    assert holding.drop("gpu", table, 7)
    assert (table, holding.repeats, holding.blocks) == ({}, {"gpu": {}}, {"gpu": 0})
    assert not holding.drop("gpu", table, 7)


def test_copies_count_per_tier() -> None:
    holding, gpu, cpu = Holding(1), Table(), Table()
    holding.add("gpu", gpu, 7, count_repeats=True)
    holding.add("cpu", cpu, 7, count_repeats=True)
    assert holding.take("gpu", gpu, 7)
    assert cpu == {7: 1}


def test_repeats_are_kept_only_for_blocks_that_have_any() -> None:
    holding, table = Holding(1), Table()
    for chain in (7, 8, 8):
        holding.add("gpu", table, chain, count_repeats=True)
    assert holding.repeats == {"gpu": {8: 1}}
    holding.take("gpu", table, 8)
    assert holding.repeats == {"gpu": {}}
    holding.add("gpu", table, 8, count_repeats=False)
    assert holding.repeats == {"gpu": {}}
