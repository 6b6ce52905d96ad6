"""The sidecar's counters in Prometheus' terms."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tokenizer_sidecar.stats import ENCODE_BUCKETS_S, Stats

PREFIX = "warmroute_tokenizer"


class StatsCollector(Collector):
    """Reads one Stats whenever metrics are asked for."""

    def __init__(self, stats: Stats) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        stats = self._stats
        requests = CounterMetricFamily(
            f"{PREFIX}_requests", "Answered requests.", labels=["outcome"]
        )
        for outcome, count in sorted(stats.requests.items()):
            requests.add_metric([outcome.lower()], count)
        yield requests
        failures = CounterMetricFamily(
            f"{PREFIX}_load_failures", "Failed attempts to load a model.", labels=["model"]
        )
        for model, count in sorted(stats.load_failures.items()):
            failures.add_metric([model], count)
        yield failures
        yield CounterMetricFamily(f"{PREFIX}_tokens", "Token ids sent.", value=stats.tokens)
        yield GaugeMetricFamily(
            f"{PREFIX}_in_flight", "Requests not yet answered.", value=stats.in_flight
        )
        yield HistogramMetricFamily(
            f"{PREFIX}_encode_seconds",
            "Time to answer a request, waiting for a thread included.",
            buckets=_cumulative(stats),
            sum_value=stats.encode_s,
        )


def _cumulative(stats: Stats) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in ENCODE_BUCKETS_S), "+Inf"]
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip(bounds, stats.encode_buckets, strict=True):
        total += count
        buckets.append((bound, total))
    return buckets


def registry(stats: Stats) -> CollectorRegistry:
    """A registry that holds the sidecar's metrics and no others."""
    own = CollectorRegistry(auto_describe=False)
    own.register(StatsCollector(stats))
    return own


def exposition(own: CollectorRegistry) -> bytes:
    """The text /metrics answers."""
    return generate_latest(own)
