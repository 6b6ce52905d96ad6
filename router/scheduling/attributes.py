"""Scalar attributes of endpoints, by the keys extractors state them under (llm-d)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from router.pool.endpoint import Endpoint, EngineMetrics
from router.producers.facts import Facts
from router.scheduling.figures import fresh

CORE: Mapping[str, Callable[[EngineMetrics], float | None]] = {
    "KVCacheUsagePercent": lambda metrics: metrics.kv_usage,
    "WaitingQueueSize": lambda metrics: metrics.waiting,
    "RunningRequestsSize": lambda metrics: metrics.running,
}
"""What core-metrics-extractor states of every engine."""


def attribute(endpoints: Sequence[Endpoint], key: str, facts: Facts) -> list[float | None]:
    """The attribute of each endpoint; None where it is not known."""
    read = CORE.get(key)
    if read is None:
        return [endpoint.attributes.get(key) for endpoint in endpoints]
    return [read(metrics) if metrics else None for metrics in fresh(endpoints, facts)]
