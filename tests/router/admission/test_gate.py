from __future__ import annotations

import random
from collections.abc import Sequence

import pytest

from router.admission.gate import Gate
from router.errors import Saturated
from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.scheduling.filters.utilization_detector import UtilizationDetector
from tests.support import make


class Full:
    """A detector that says what it is given."""

    def __init__(self, saturation: float) -> None:
        self._saturation = saturation

    def saturation(self, endpoints: Sequence[Endpoint], facts: Facts) -> float:
        return self._saturation


@pytest.mark.parametrize(
    ("priority", "saturation"), [(0, 9.0), (3, 9.0), (-1, 0.99)], ids=["default", "high", "room"]
)
def test_a_request_passes_where_it_may_not_wait_or_there_is_room(
    priority: int, saturation: float
) -> None:
    Gate(Full(saturation)).admit(make.request(priority=priority), [], Facts(random.Random(1)))


@pytest.mark.parametrize("saturation", [1.0, 4.0])
def test_a_sheddable_request_is_turned_away_by_a_full_pool(saturation: float) -> None:
    with pytest.raises(Saturated, match="system saturated, sheddable request dropped") as caught:
        Gate(Full(saturation)).admit(make.request(priority=-1), [], Facts())
    assert (caught.value.status, caught.value.dropped_reason) == (429, "rejected-saturated")


@pytest.mark.parametrize(
    ("now_s", "refused"), [(100.0, False), (200.0, True)], ids=["fresh", "all-stale"]
)
def test_without_fresh_metrics_only_sheddable_requests_see_a_full_pool(
    now_s: float, refused: bool
) -> None:
    facts = Facts()
    facts.now = now_s
    endpoints = [make.endpoint(waiting=0, scraped_at=99.0)]
    gate = Gate(UtilizationDetector())
    gate.admit(make.request(priority=0), endpoints, facts)
    if refused:
        with pytest.raises(Saturated):
            gate.admit(make.request(priority=-1), endpoints, facts)
    else:
        gate.admit(make.request(priority=-1), endpoints, facts)
