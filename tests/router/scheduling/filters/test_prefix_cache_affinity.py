from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.producers.facts import Facts, InFlight, PrefixMatch
from router.scheduling.filters.prefix_cache_affinity import PrefixCacheAffinityFilter
from tests.support import make

ENDPOINTS = [make.endpoint(name) for name in "abcd"]


def kept(facts: Facts, **parameters: Any) -> str:
    plugin = msgspec.convert(parameters, PrefixCacheAffinityFilter)
    left = plugin.filter(make.request(), ENDPOINTS, facts)
    return "".join(endpoint.address for endpoint in left)


def known(**tokens: int) -> Facts:
    """a and b hold 9 and 8 blocks of 10, c holds 7."""
    a, b, c = (make.held(blocks) for blocks in (9, 8, 7))
    return make.facts(total_blocks=10, in_flight_tokens=tokens, a=a, b=b, c=c)


def test_those_that_hold_enough_are_kept() -> None:
    assert kept(known()) == "ab"
    assert kept(known(), affinityThreshold=0.9) == "a"
    assert kept(known(), affinityThreshold=0.7) == "abc"


def test_all_are_kept_where_none_holds_enough() -> None:
    assert kept(known(), affinityThreshold=0.95) == "abcd"
    assert kept(make.facts()) == "abcd"


@pytest.mark.parametrize(
    ("tokens", "left"),
    [
        # At 1000 tokens a second: the better of a and b against the better of c and d.
        pytest.param({"a": 9000, "b": 2000}, "ab", id="two-seconds-are-allowed"),
        pytest.param({"a": 9000, "b": 2001}, "abcd", id="more-are-not"),
        pytest.param({"a": 9000, "b": 5000, "c": 4000, "d": 3000}, "ab", id="others-wait-too"),
        pytest.param({"b": 90000}, "ab", id="one-of-them-is-idle"),
    ],
)
def test_a_prefix_is_not_worth_any_wait(tokens: dict[str, int], left: str) -> None:
    limits = {"maxTTFTPenaltyMs": 2000, "peakPrefillThroughput": 1000}
    assert kept(known(**tokens), **limits) == left
    predicted = {**limits, "ttftSource": "latencyPredictor"}
    assert kept(known(**tokens), **predicted) == left


def test_without_a_limit_the_wait_does_not_count() -> None:
    assert kept(known(a=10**9, b=10**9), maxTTFTPenaltyMs=0) == "ab"


def test_where_all_hold_it_there_is_nobody_to_compare_with() -> None:
    assert kept(known(a=10**9, b=10**9), affinityThreshold=0) == "abcd"


def test_it_explores_as_often_as_it_is_told() -> None:
    facts = known()
    assert kept(facts, explorationProbability=1) == "abcd"
    explored = [kept(facts, explorationProbability=0.25) == "abcd" for _ in range(1000)]
    assert 200 < sum(explored) < 300


def test_the_named_producers_count() -> None:
    plugin = PrefixCacheAffinityFilter(
        prefix_match_info_producer_name="p", in_flight_load_producer_name="l"
    )
    assert plugin.needs() == ((PrefixMatch, "p"), (InFlight, "l"))
    assert PrefixCacheAffinityFilter(max_ttft_penalty_ms=0).needs() == ((PrefixMatch, ""),)
    assert plugin.filter(make.request(), ENDPOINTS, known()) == ENDPOINTS
