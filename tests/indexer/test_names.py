"""Names: who calls a block what."""

from __future__ import annotations

from indexer.names import Names, Overlay, chains_of, last_of

A, B = 101, 102
ONE, TWO = 0b01, 0b10


def test_the_first_name_of_a_block_is_shared() -> None:
    names = Names()
    own: Overlay = {}
    names.assign(own, ONE, 1, A, present=0)
    assert (names.shared, own) == ({1: A}, {})
    assert names.callers(A, ONE) == ONE


def test_another_name_for_it_is_the_holders_own() -> None:
    names = Names()
    own: Overlay = {}
    names.assign({}, ONE, 1, A, present=0)
    names.assign(own, TWO, 2, A, present=ONE)
    assert (names.shared, own) == ({1: A}, {2: A})
    assert names.callers(A, ONE | TWO) == ONE


def test_a_shared_name_goes_with_its_last_caller() -> None:
    names = Names()
    own: Overlay = {}
    names.assign({}, ONE, 1, A, present=0)
    names.assign(own, TWO, 2, A, present=ONE)
    names.release({}, ONE, 1, A, present=TWO)
    assert names.shared == {}
    names.release(own, TWO, 2, A, present=0)
    assert (own, names.aliased) == ({}, {})


def test_a_shared_name_stays_while_another_calls_the_block_by_it() -> None:
    names = Names()
    names.assign({}, ONE, 1, A, present=0)
    names.release({}, ONE, 1, A, present=TWO)
    assert names.shared == {1: A}


def test_a_taken_name_is_the_holders_own_for_other_content() -> None:
    names = Names()
    own: Overlay = {}
    names.assign({}, ONE, 1, A, present=0)
    names.assign(own, TWO, 1, B, present=0)
    assert (names.shared, own) == ({1: A}, {1: B})


def test_who_learns_the_shared_name_is_a_caller_again() -> None:
    names = Names()
    own: Overlay = {}
    names.assign({}, ONE, 1, A, present=0)
    names.assign(own, TWO, 2, A, present=ONE)
    names.assign(own, TWO, 1, A, present=ONE | TWO)
    assert names.callers(A, ONE | TWO) == ONE | TWO


def test_a_split_block_is_told_by_its_last_part() -> None:
    assert chains_of((A, B)) == (A, B)
    assert chains_of(A) == (A,)
    assert last_of((A, B)) == B
    names = Names()
    names.assign({}, ONE, 1, (A, B), present=0)
    own: Overlay = {}
    names.assign(own, TWO, 2, (A, B), present=ONE)
    assert names.aliased == {A: TWO, B: TWO}
    names.release(own, TWO, 2, (A, B), present=ONE)
    assert names.aliased == {}
