"""Sweeping: what it takes out, and what may happen between its steps."""

from __future__ import annotations

from collections import deque

from indexer.holders import HolderBits
from indexer.holding import Holding, Table
from indexer.names import Names
from indexer.sweep import sweep_steps
from tests.indexer.make import E1, E2

A, B = 101, 102


def _run(table: Table, names: Names, holdings: list[Holding], bits: HolderBits) -> None:
    deque(sweep_steps([table], names, holdings, bits, lambda chain: table.get(chain, 0)), 0)


def test_takes_retired_bits_and_names_that_nobody_uses_out() -> None:
    bits, names = HolderBits(), Names()
    one, two = bits.bit(E1), bits.bit(E2)
    table = {A: one, B: one | two}
    names.shared = {1: A, 2: B}
    names.aliased = {A: one}
    bits.retire(E1)
    _run(table, names, [], bits)
    assert (table, names.shared, names.aliased) == ({B: two}, {2: B}, {})
    assert bits.retired == 0


def test_bits_retired_during_a_sweep_wait_for_the_next() -> None:
    bits, names = HolderBits(), Names()
    one, two = bits.bit(E1), bits.bit(E2)
    table = {A: one | two}
    bits.retire(E1)
    steps = sweep_steps([table], names, [], bits, lambda chain: table.get(chain, 0))
    next(steps)
    bits.retire(E2)
    deque(steps, 0)
    assert (table, bits.retired) == ({A: two}, two)


def test_forgets_a_holders_own_names_of_blocks_it_has_no_more() -> None:
    bits, names = HolderBits(), Names()
    holding = Holding(bits.bit(E1))
    holding.own = {1: A, 2: B}
    holding.doubled = {A, B}
    table = {B: holding.bit}
    names.aliased = {A: holding.bit, B: holding.bit}
    _run(table, names, [holding], bits)
    assert (holding.own, holding.doubled, names.aliased) == ({2: B}, {B}, {B: holding.bit})


def test_a_ghost_keeps_a_block_until_its_names_are_swept() -> None:
    bits, names = HolderBits(), Names()
    ghost = bits.ghost()
    assert bits.ghost() == ghost
    table = {A: ghost}
    names.shared = {1: A}
    _run(table, names, [], bits)
    assert (table, names.shared, bits.retired) == ({}, {}, 0)
