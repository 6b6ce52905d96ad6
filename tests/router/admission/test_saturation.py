from __future__ import annotations

import pytest

from router.admission.saturation import (
    ConcurrencyLimits,
    UtilizationLimits,
    concurrency,
    saturation,
    utilization,
    with_room,
)
from router.pool.endpoint import EngineMetrics
from router.producers.facts import InFlight
from tests.support import make

LIMITS = UtilizationLimits(queue_depth=5, kv_usage=0.8, stale_after_s=0.2)


@pytest.mark.parametrize(
    ("metrics", "now_s", "share"),
    [
        pytest.param(EngineMetrics(waiting=4, kv_usage=0.2), 0, 0.8, id="the-queue-is-fuller"),
        pytest.param(EngineMetrics(waiting=1, kv_usage=0.4), 0, 0.5, id="the-cache-is-fuller"),
        pytest.param(EngineMetrics(waiting=20, kv_usage=0.4), 0, 4.0, id="above-one"),
        pytest.param(EngineMetrics(waiting=0, kv_usage=0.0), 0, 0.0, id="idle"),
        pytest.param(EngineMetrics(waiting=1), 0, 0.2, id="no-kv-usage-published"),
        pytest.param(EngineMetrics(kv_usage=0.4), 0, 0.5, id="no-queue-published"),
        pytest.param(EngineMetrics(), 0, None, id="nothing-published"),
        pytest.param(None, 0, None, id="never-scraped"),
        pytest.param(EngineMetrics(waiting=1, scraped_at=10), 13.0, 0.2, id="three-seconds-old"),
        pytest.param(EngineMetrics(waiting=1, scraped_at=10), 13.1, None, id="older"),
        pytest.param(
            EngineMetrics(waiting=1, scraped_at=10, good_for_s=15), 25, 0.2, id="scraped-seldom"
        ),
    ],
)
def test_an_endpoint_uses_the_larger_share_of_its_limits(
    metrics: EngineMetrics | None, now_s: float, share: float | None
) -> None:
    assert utilization(metrics, LIMITS, now_s) == (None if share is None else pytest.approx(share))


def test_a_longer_limit_of_age_counts() -> None:
    patient = UtilizationLimits(queue_depth=5, kv_usage=0.8, stale_after_s=60)
    assert utilization(EngineMetrics(waiting=5, scraped_at=10), patient, 69) == 1.0


@pytest.mark.parametrize(
    ("limits", "share"),
    [
        pytest.param(ConcurrencyLimits(requests=10), 0.4, id="requests"),
        pytest.param(ConcurrencyLimits(tokens=1000), 0.5, id="tokens"),
        pytest.param(ConcurrencyLimits(requests=10, tokens=1000), 0.5, id="both"),
        pytest.param(ConcurrencyLimits(), 0.0, id="no-limit"),
    ],
)
def test_what_was_sent_is_held_to_its_limits(limits: ConcurrencyLimits, share: float) -> None:
    in_flight = InFlight({"a": 4}, {"a": 500})
    assert concurrency("a", in_flight, limits) == share
    assert concurrency("b", in_flight, limits) == 0.0


@pytest.mark.parametrize(
    ("shares", "mean"),
    [
        pytest.param([0.5, 1.5], 1.0, id="mean"),
        pytest.param([0.0, None], 0.5, id="unknown-is-full"),
        pytest.param([None, None], 1.0, id="nothing-known"),
        pytest.param([], 1.0, id="no-endpoints"),
        pytest.param([4.0, 2.0], 3.0, id="not-clamped"),
    ],
)
def test_the_pool_is_as_full_as_its_endpoints_on_average(
    shares: list[float | None], mean: float
) -> None:
    assert saturation(shares) == mean


def test_only_what_is_known_to_be_below_its_limit_has_room() -> None:
    endpoints = [make.endpoint(name) for name in "abcd"]
    shares = [0.9, 1.0, 1.1, None]
    assert [e.address for e in with_room(endpoints, shares, 0.0)] == ["a"]
    assert [e.address for e in with_room(endpoints, shares, 0.1)] == ["a", "b"]
