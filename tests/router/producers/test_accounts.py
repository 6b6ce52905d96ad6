from __future__ import annotations

from router.producers.accounts import DEFAULT_FLOW, MAX_ID, fairness_id
from router.producers.facts import Facts, FairnessId
from tests.support import make

NAMED = {"x-llm-d-inference-fairness-id": "mine"}


def test_what_the_request_says_counts_before_what_a_producer_states() -> None:
    facts = Facts()
    assert fairness_id(make.request(), facts) == DEFAULT_FLOW
    facts.put(FairnessId("agent"), "agents")
    assert fairness_id(make.request(), facts) == "agent"
    assert fairness_id(make.request(headers=NAMED), facts) == "mine"


def test_a_long_name_is_cut() -> None:
    facts = Facts()
    facts.put(FairnessId("x" * (MAX_ID + 1)), "agents")
    assert fairness_id(make.request(), facts) == "x" * MAX_ID
