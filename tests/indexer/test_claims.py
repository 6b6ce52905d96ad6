"""Claims: kept by name and place, bounded, forgotten copy by copy."""

from __future__ import annotations

from indexer.claims import Claims, Place
from tests.indexer.make import E1, E2

WINDOW, STATE, LOWER = Place("gpu", 1, 1), Place("gpu", 2, 2), Place("cpu", 1, 1)


def test_all_that_waits_for_a_name_is_handed_out_once() -> None:
    claims = Claims()
    for place in (WINDOW, WINDOW, STATE):
        assert claims.add(E1, 7, place)
    claims.add(E2, 7, LOWER)
    assert 7 in claims.of(E1)
    assert claims.take(E1, 7) == {WINDOW: 2, STATE: 1}
    assert claims.take(E1, 7) == {}
    assert (list(claims.of(E1)), list(claims.of(E2)), len(claims)) == ([], [7], 1)


def test_one_removal_takes_one_copy_of_its_place() -> None:
    claims = Claims()
    for place in (WINDOW, WINDOW, LOWER):
        claims.add(E1, 7, place)
    claims.discard(E1, 7, "gpu", 1)
    claims.discard(E1, 7, "gpu", 9)
    assert dict(claims.take(E1, 7)) == {WINDOW: 1, LOWER: 1}
    claims.add(E1, 7, WINDOW)
    claims.discard(E1, 7, "gpu", 1)
    assert not claims


def test_the_oldest_gives_way() -> None:
    claims = Claims(max_names=2)
    assert [claims.add(E1, name, WINDOW) for name in (1, 2, 3)] == [True, True, False]
    assert list(claims.of(E1)) == [2, 3]
    assert claims.add(E2, 1, WINDOW)


def test_a_clear_forgets_a_holder_or_one_of_its_tiers() -> None:
    claims = Claims()
    for place in (WINDOW, LOWER, LOWER):
        claims.add(E1, 7, place)
    claims.add(E1, 8, WINDOW)
    claims.clear_tier(E1, "gpu")
    assert list(claims.of(E1)) == [7]
    assert claims.take(E1, 7) == {LOWER: 2}
    claims.add(E1, 7, LOWER)
    claims.clear(E1)
    assert not claims
