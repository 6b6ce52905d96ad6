from __future__ import annotations

import pytest

from router.pool.endpoint import ROLE_LABEL
from router.producers.facts import InFlight, Tokens
from router.scheduling.motor_load import loads
from tests.support import make


@pytest.mark.parametrize(
    ("role", "load"),
    [
        pytest.param("prefill", 1000 + 0.3 * 2000, id="prefill"),
        pytest.param("decode", 1000, id="decode"),
        pytest.param("prefill-decode", 1000 + 0.15 * 2000, id="combined"),
        pytest.param(None, 1000 + 0.15 * 2000, id="no-role-is-combined"),
    ],
)
def test_what_is_held_counts_by_role(role: str | None, load: float) -> None:
    labels = {ROLE_LABEL: role} if role else {}
    facts = make.facts()
    facts.put(InFlight({}, {"a": 1000}, {"a": 2000}))
    facts.put(Tokens(bytes(4)))
    endpoints = [make.endpoint("a", labels=labels), make.endpoint("b", labels=labels)]
    assert loads(endpoints, facts, "") == [load, 0]


def test_without_tokens_requests_are_the_load() -> None:
    facts = make.facts(in_flight={"a": 3}, in_flight_tokens={"b": 1000})
    assert loads([make.endpoint("a"), make.endpoint("b")], facts, "load") == [3, 0]


def test_without_counts_nobody_is_busy() -> None:
    assert loads([make.endpoint("a")], make.facts(), "") == [0]
