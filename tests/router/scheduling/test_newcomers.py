from __future__ import annotations

from collections import Counter

from router.pool.pool import Pool
from router.producers.facts import Facts
from router.scheduling.newcomers import WARM_UP_S, Newcomers
from tests.support import make

OLD = [make.endpoint(name) for name in "ab"]
NEW = [make.endpoint(name) for name in "cd"]


class Fixture:
    """A pool with two endpoints that have been there for long, and a clock that a test moves."""

    def __init__(self) -> None:
        self.now = 0.0
        self.newcomers = Newcomers(lambda: self.now)
        self.pool = Pool(OLD)
        self.pool.listen(self.newcomers)
        self.now = WARM_UP_S

    def held_back(self, facts: Facts | None = None, requests: int = 1000) -> Counter[str]:
        known = facts or make.facts()
        known.now = self.now
        addresses: Counter[str] = Counter()
        for _ in range(requests):
            addresses.update(self.newcomers.held_back(self.pool.snapshot(), known))
        return addresses


def test_each_newcomer_is_seen_by_fewer_than_half_of_the_requests() -> None:
    fixture = Fixture()
    fixture.pool.replace([*OLD, *NEW])
    back = fixture.held_back()
    assert set(back) == {"c", "d"}
    assert all(500 < count < 700 for count in back.values())


def test_it_is_new_only_for_a_while() -> None:
    fixture = Fixture()
    fixture.pool.replace([*OLD, *NEW])
    fixture.now += WARM_UP_S - 0.1
    assert fixture.held_back()
    fixture.now += 0.2
    assert not fixture.held_back()


def test_an_engine_that_restarted_is_new_again() -> None:
    fixture = Fixture()
    assert not fixture.held_back()
    fixture.newcomers.restarted(OLD[0])
    assert set(fixture.held_back()) == {"a"}


def test_a_request_sees_a_newcomer_that_holds_its_prefix() -> None:
    fixture = Fixture()
    fixture.pool.replace([*OLD, *NEW])
    assert set(fixture.held_back(make.facts(total_blocks=4, c=make.held(1)))) == {"d"}


def test_where_all_are_new_all_are_seen() -> None:
    fixture = Fixture()
    fixture.pool.replace(NEW)
    assert not fixture.held_back()


def test_an_endpoint_that_went_is_forgotten_and_a_label_makes_none_new() -> None:
    fixture = Fixture()
    fixture.pool.replace([*OLD, *NEW])
    fixture.pool.replace(OLD)
    assert not fixture.held_back()
    fixture.pool.replace([OLD[0], make.endpoint("b", labels={"tier": "gold"})])
    assert not fixture.held_back()
