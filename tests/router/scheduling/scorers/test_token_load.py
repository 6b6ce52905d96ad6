from __future__ import annotations

from router.producers.facts import InFlight, Uncached
from router.scheduling.scorers.token_load import TokenLoadScorer
from tests.support import make

ENDPOINTS = [make.endpoint(name) for name in "abc"]


def test_fewer_tokens_to_compute_score_higher() -> None:
    facts = make.facts(in_flight_tokens={"a": 500, "b": 900})
    facts.put(Uncached({"a": 100, "b": 200, "c": 250}), "load")
    scorer = TokenLoadScorer(queue_threshold_tokens=1000)
    # 600, 1100 and 250 of 1000.
    assert scorer.score(make.request(), ENDPOINTS, facts) == [0.4, 0.0, 0.75]


def test_an_endpoint_that_just_came_has_the_whole_prompt_to_compute() -> None:
    facts = make.facts(in_flight_tokens={})
    facts.put(Uncached({"a": 100, "b": 250}), "load")
    scorer = TokenLoadScorer(queue_threshold_tokens=1000)
    assert scorer.score(make.request(), ENDPOINTS, facts) == [0.9, 0.75, 0.75]


def test_what_is_in_flight_counts_alone_where_the_prompt_is_not_known() -> None:
    facts = make.facts(in_flight_tokens={"a": 2**21})
    assert TokenLoadScorer().score(make.request(), ENDPOINTS, facts) == [0.5, 1.0, 1.0]


def test_all_are_equal_where_nobody_counts() -> None:
    assert TokenLoadScorer().score(make.request(), ENDPOINTS, make.facts()) == [1.0] * 3


def test_the_named_producer_counts() -> None:
    scorer = TokenLoadScorer(in_flight_load_producer_name="another")
    assert scorer.needs() == ((InFlight, "another"), (Uncached, "another"))
    facts = make.facts(in_flight_tokens={"a": 2**21})
    assert scorer.score(make.request(), ENDPOINTS, facts) == [1.0] * 3
