"""What a run cost."""

from __future__ import annotations

import pytest

from bench.load import Outcome
from bench.measure import Spent, least


def spent(router: float, sidecar: float) -> Spent:
    return Spent({"router": router, "sidecar": sidecar, "envoy": 9.0}, Outcome(1.0, [0.1]))


def test_router_and_sidecar_count_and_envoy_does_not() -> None:
    assert spent(0.5, 0.25).ours == 0.75


def test_requests_per_router_core_follow_from_its_cpu_time() -> None:
    assert spent(0.5, 9.0).rate_per_router_core == pytest.approx(2000)


def test_the_least_disturbed_run_counts() -> None:
    assert least([spent(2, 1), spent(1, 1), spent(1, 3)]).ours == 2


def test_a_note_says_who_spent_what() -> None:
    assert spent(0.5, 0.25).shares() == "router 0.5, sidecar 0.25, envoy 9"
