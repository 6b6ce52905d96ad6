from __future__ import annotations

import msgspec
import pytest

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.scheduling.filters.utilization_detector import UtilizationDetector
from tests.support import make

ENDPOINTS = [
    make.endpoint("idle", waiting=0, kv_usage=0.1),
    make.endpoint("queue", waiting=5, kv_usage=0.1),
    make.endpoint("cache", waiting=0, kv_usage=0.8),
    make.endpoint("new"),
]


def kept(detector: UtilizationDetector, *endpoints: Endpoint, facts: Facts | None = None) -> str:
    left = detector.filter(make.request(), endpoints, facts or make.facts())
    return " ".join(endpoint.address for endpoint in left)


def test_full_endpoints_and_those_not_known_are_left_out() -> None:
    assert kept(UtilizationDetector(), *ENDPOINTS) == "idle"


def test_headroom_lets_more_through() -> None:
    assert kept(UtilizationDetector(headroom=0.2), *ENDPOINTS) == "idle queue cache"


def test_all_stay_where_none_has_room() -> None:
    assert kept(UtilizationDetector(), *ENDPOINTS[1:]) == "queue cache new"


def test_stale_metrics_are_no_metrics() -> None:
    facts = make.facts()
    facts.now = 100.0
    fresh = make.endpoint("fresh", waiting=1, scraped_at=99.0)
    stale = make.endpoint("stale", waiting=0, scraped_at=90.0)
    assert kept(UtilizationDetector(), fresh, stale, facts=facts) == "fresh"
    patient = UtilizationDetector(metrics_staleness_threshold="20s")
    assert kept(patient, fresh, stale, facts=facts) == "fresh stale"
    # 1/5 and, unknown, 1.
    assert UtilizationDetector().saturation([fresh, stale], facts) == pytest.approx(0.6)


def test_the_pool_is_as_full_as_its_endpoints_on_average() -> None:
    # max(0/5, .1/.8), max(5/5, .1/.8), max(0/5, .8/.8) and, unknown, 1.
    full = UtilizationDetector().saturation(ENDPOINTS, make.facts())
    assert full == pytest.approx((0.125 + 1 + 1 + 1) / 4)
    assert UtilizationDetector().saturation([], make.facts()) == 1.0


@pytest.mark.parametrize(
    "parameters",
    [
        {"queueDepthThreshold": 0},
        {"kvCacheUtilThreshold": 1.1},
        {"kvCacheUtilThreshold": 0},
        {"metricsStalenessThreshold": "soon"},
        {"headroom": -1},
    ],
    ids=str,
)
def test_parameters_that_make_no_sense_are_refused(parameters: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(parameters, UtilizationDetector)
