from __future__ import annotations

from typing import Any

import msgspec

from router.producers.facts import Facts
from router.scheduling.filters.session_affinity import (
    SessionAffinityFilter,
    SessionAffinityFilterParameters,
)
from tests.support import make

ENDPOINTS = [make.endpoint(a) for a in "abc"]


def built(**parameters: Any) -> SessionAffinityFilter:
    return msgspec.convert(parameters, SessionAffinityFilterParameters).build()


def test_a_carried_session_keeps_its_endpoint_only() -> None:
    affinity = built()
    decision = make.decision(ENDPOINTS[1])
    told = affinity.amended(make.request(), Facts(), decision).response_headers
    request = make.request(headers=told)
    assert affinity.filter(request, ENDPOINTS, Facts()) == [ENDPOINTS[1]]
    assert affinity.filter(request, ENDPOINTS[2:], Facts()) == ENDPOINTS[2:]
    assert affinity.filter(make.request(), ENDPOINTS, Facts()) == ENDPOINTS


def test_a_remembered_session_keeps_its_endpoint_only() -> None:
    affinity = built(strategy="session_id")
    request = make.request(headers={"x-session-id": "s1"})
    assert affinity.filter(request, ENDPOINTS, Facts()) == ENDPOINTS
    assert affinity.decided(request, Facts(), make.decision(ENDPOINTS[1])) is None
    assert affinity.filter(request, ENDPOINTS, Facts()) == [ENDPOINTS[1]]
    assert affinity.amended(request, Facts(), make.decision("a")).response_headers == {}
