"""One holder's share of a table."""

from __future__ import annotations

from indexer.holding import Holding
from indexer.shelves import Shelf


def test_the_last_copy_taken_gives_the_block_up() -> None:
    holding, shelf = Holding(0b10), Shelf("gpu", 1, None)
    shelf.table[7] = 0b01
    holding.add(shelf, 7)
    holding.add(shelf, 7)
    assert (shelf.table, holding.entries) == ({7: 0b11}, {shelf: 1})
    assert not holding.take(shelf, 7)
    assert shelf.table == {7: 0b11}
    assert holding.take(shelf, 7)
    assert (shelf.table, holding.entries) == ({7: 0b01}, {shelf: 0})
    assert not holding.take(shelf, 7)


def test_dropping_takes_all_copies() -> None:
    holding, shelf = Holding(0b10), Shelf("gpu", 1, None)
    for _ in range(3):
        holding.add(shelf, 7)
    assert holding.drop(shelf, 7)
    assert (shelf.table, holding.repeats, holding.entries) == ({}, {shelf: {}}, {shelf: 0})
    assert not holding.drop(shelf, 7)


def test_copies_count_per_tier() -> None:
    holding, gpu, cpu = Holding(1), Shelf("gpu", 1, None), Shelf("cpu", 1, None)
    holding.add(gpu, 7)
    holding.add(cpu, 7)
    assert holding.take(gpu, 7)
    assert cpu.table == {7: 1}


def test_repeats_are_kept_only_for_blocks_that_have_any() -> None:
    holding, shelf = Holding(1), Shelf("gpu", 1, None)
    for chain in (7, 8, 8):
        holding.add(shelf, chain)
    assert holding.repeats == {shelf: {8: 1}}
    holding.take(shelf, 8)
    assert holding.repeats == {shelf: {}}
    holding.counts = False
    holding.add(shelf, 8)
    assert holding.repeats == {shelf: {}}
