"""The sidecar's counters in Prometheus' terms."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import msgspec
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from tokenizer_sidecar.cache import CacheStats
from tokenizer_sidecar.stats import ENCODE_BUCKETS_S, Stats

PREFIX = "warmroute_tokenizer"


def _no_caches() -> Mapping[str, CacheStats]:
    return {}


def _no_models() -> Mapping[str, str]:
    return {}


def _none_queued() -> int:
    return 0


class Sources(msgspec.Struct, frozen=True):
    """What is asked whenever metrics are.

    Attributes:
        stats: Counters of the service.
        queued: Requests that wait for a thread.
        caches: Model to the counters of its cache.
        missing: Model to what keeps it from being ready; empty where nothing does.
    """

    stats: Stats
    queued: Callable[[], int] = _none_queued
    caches: Callable[[], Mapping[str, CacheStats]] = _no_caches
    missing: Callable[[], Mapping[str, str]] = _no_models


class StatsCollector(Collector):
    """Reads its sources whenever metrics are asked for."""

    def __init__(self, sources: Sources) -> None:
        self._sources = sources

    def collect(self) -> Iterator[Metric]:
        stats = self._sources.stats
        requests = CounterMetricFamily(
            f"{PREFIX}_requests", "What became of requests.", labels=["outcome"]
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
        ready = GaugeMetricFamily(
            f"{PREFIX}_model_ready", "The model's tokenizer is loaded.", labels=["model"]
        )
        for model, message in sorted(self._sources.missing().items()):
            ready.add_metric([model], not message)
        yield ready
        yield CounterMetricFamily(f"{PREFIX}_tokens", "Token ids sent.", value=stats.tokens)
        yield GaugeMetricFamily(
            f"{PREFIX}_in_flight", "Requests not yet answered.", value=stats.in_flight
        )
        yield GaugeMetricFamily(
            f"{PREFIX}_queued", "Requests that wait for a thread.", value=self._sources.queued()
        )
        yield CounterMetricFamily(
            f"{PREFIX}_work_seconds", "Parsing, rendering and encoding.", value=stats.work_s
        )
        yield from _caches(self._sources.caches())
        yield HistogramMetricFamily(
            f"{PREFIX}_encode_seconds",
            "Time to answer a request, waiting for a thread included.",
            buckets=_cumulative(stats),
            sum_value=stats.encode_s,
        )


def _caches(caches: Mapping[str, CacheStats]) -> Iterator[Metric]:
    tokens = CounterMetricFamily(
        f"{PREFIX}_cache_tokens",
        "Ids taken from the cache, or computed for it.",
        labels=["model", "result"],
    )
    evicted = CounterMetricFamily(
        f"{PREFIX}_cache_evictions", "Pieces of text forgotten for others.", labels=["model"]
    )
    used = GaugeMetricFamily(f"{PREFIX}_cache_bytes", "Memory of the cache.", labels=["model"])
    for model, cache in sorted(caches.items()):
        tokens.add_metric([model, "hit"], cache.hit_tokens)
        tokens.add_metric([model, "new"], cache.new_tokens)
        evicted.add_metric([model], cache.evicted)
        used.add_metric([model], cache.bytes)
    yield from (tokens, evicted, used)


def _cumulative(stats: Stats) -> list[tuple[str, float]]:
    bounds = [*(str(bound) for bound in ENCODE_BUCKETS_S), "+Inf"]
    total = 0
    buckets: list[tuple[str, float]] = []
    for bound, count in zip(bounds, stats.encode_buckets, strict=True):
        total += count
        buckets.append((bound, total))
    return buckets


def registry(sources: Sources) -> CollectorRegistry:
    """A registry that holds the sidecar's metrics and no others."""
    own = CollectorRegistry(auto_describe=False)
    own.register(StatsCollector(sources))
    return own


def exposition(own: CollectorRegistry) -> bytes:
    """The text /metrics answers."""
    return generate_latest(own)
