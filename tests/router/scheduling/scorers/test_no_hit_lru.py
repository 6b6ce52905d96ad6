from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.scheduling.scorers.no_hit_lru import NoHitLruParameters, NoHitLruScorer
from router.scheduling.types import Decision, Outcome
from tests.support import make

ABC = [make.endpoint(a) for a in "abc"]
NEW = make.facts(4)


def scorer(**parameters: Any) -> NoHitLruScorer:
    return msgspec.convert(parameters, NoHitLruParameters).build()


def pick(lru: NoHitLruScorer, address: str, facts: Facts = NEW, prefill: str | None = None) -> None:
    totals = dict.fromkeys("abc", 0.0)
    outcome = Outcome("default", (make.endpoint(address),), totals, {}, ())
    other = None if prefill is None else make.outcome(prefill)
    assert lru.decided(make.request(), facts, Decision(outcome, other)) is None


def scores(lru: NoHitLruScorer, facts: Facts = NEW, endpoints: list[Endpoint] = ABC) -> list[float]:
    return list(lru.score(make.request(), endpoints, facts))


@pytest.mark.parametrize(
    ("picks", "expected"),
    [
        # n = 3: 1 - i / 2 for the unused ones, then for the used ones, the longest ago first.
        pytest.param("", [1.0, 0.5, 0.0], id="nobody-used"),
        pytest.param("a", [0.0, 1.0, 0.5], id="one-used"),
        pytest.param("ca", [0.0, 1.0, 0.5], id="c-before-a"),
        pytest.param("ac", [0.5, 1.0, 0.0], id="a-before-c"),
        pytest.param("abc", [1.0, 0.5, 0.0], id="all-in-order"),
        pytest.param("abca", [0.0, 1.0, 0.5], id="a-again"),
    ],
)
def test_who_had_no_new_prompt_for_longest_scores_most(picks: str, expected: list[float]) -> None:
    lru = scorer()
    for address in picks:
        pick(lru, address)
    assert scores(lru) == expected


def test_a_single_candidate_scores_1() -> None:
    assert scores(scorer(), endpoints=ABC[:1]) == [1.0]


def test_where_anybody_holds_part_of_the_prompt_all_score_the_same() -> None:
    warm = make.facts(4, b=make.held(1))
    lru = scorer()
    assert scores(lru, warm) == [0.5] * 3
    pick(lru, "a", warm)
    assert scores(lru) == [1.0, 0.5, 0.0]
    elsewhere = make.facts(4, z=make.held(1), a=make.held(0))
    assert scores(lru, elsewhere) == [1.0, 0.5, 0.0]


def test_without_a_match_every_prompt_is_new() -> None:
    lru = scorer()
    pick(lru, "a", make.facts())
    assert scores(lru, make.facts()) == [0.0, 1.0, 0.5]


def test_endpoints_that_are_no_candidates_take_no_place() -> None:
    lru = scorer()
    for address in "zayb":
        pick(lru, address)
    assert scores(lru, endpoints=ABC[:2]) == [1.0, 0.0]


def test_both_stages_of_a_request_count() -> None:
    lru = scorer()
    pick(lru, "a", prefill="c")
    assert scores(lru) == [0.5, 1.0, 0.0]


def test_only_so_many_endpoints_are_remembered() -> None:
    lru = scorer(lruSize=1)
    pick(lru, "a")
    pick(lru, "c")
    assert scores(lru) == [1.0, 0.5, 0.0]


@given(st.integers(2, 6), st.integers(1, 40))
def test_new_prompts_spread_evenly(count: int, requests: int) -> None:
    lru = scorer()
    endpoints = [make.endpoint(f"e{i}") for i in range(count)]
    used: Counter[str] = Counter()
    for _ in range(requests):
        rated = scores(lru, endpoints=endpoints)
        best = endpoints[rated.index(max(rated))].address
        used[best] += 1
        pick(lru, best)
    assert max(used.values()) - min((used[e.address] for e in endpoints), default=0) <= 1
