from __future__ import annotations

from typing import Any

import msgspec

from router.producers.facts import Facts
from router.scheduling.scorers.session_affinity import (
    SessionAffinityScorer,
    SessionAffinityScorerParameters,
)
from tests.support import make

ENDPOINTS = [make.endpoint(a) for a in "abc"]


def built(**parameters: Any) -> SessionAffinityScorer:
    return msgspec.convert(parameters, SessionAffinityScorerParameters).build()


def test_the_endpoint_of_a_carried_session_scores_1() -> None:
    affinity = built()
    decision = make.decision(ENDPOINTS[1])
    told = affinity.amended(make.request(), Facts(), decision).response_headers
    request = make.request(headers=told)
    assert affinity.score(request, ENDPOINTS, Facts()) == [0.0, 1.0, 0.0]
    assert affinity.score(request, ENDPOINTS[2:], Facts()) == [0.0]
    assert affinity.score(make.request(), ENDPOINTS, Facts()) == [0.0, 0.0, 0.0]


def test_the_endpoint_of_a_remembered_session_scores_1() -> None:
    affinity = built(strategy="session_id")
    request = make.request(headers={"x-session-id": "s1"})
    assert affinity.score(request, ENDPOINTS, Facts()) == [0.0, 0.0, 0.0]
    assert affinity.decided(request, Facts(), make.decision(ENDPOINTS[1])) is None
    assert affinity.score(request, ENDPOINTS, Facts()) == [0.0, 1.0, 0.0]
    assert affinity.amended(request, Facts(), make.decision("a")).response_headers == {}
