"""The proxy's counts as Prometheus text."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, Metric

from pd_sidecar.connectors.types import Outcome
from pd_sidecar.stats import Stats


class _Collector:
    def __init__(self, stats: Stats) -> None:
        self._stats = stats

    def collect(self) -> Iterator[Metric]:
        stats = self._stats
        prefills = CounterMetricFamily(
            "warmroute_pd_prefill", "Requests that named a prefill engine.", labels=("outcome",)
        )
        for outcome in Outcome:
            prefills.add_metric((outcome.value,), stats.prefills[outcome])
        yield prefills
        for name, value, text in (
            ("warmroute_pd_encoded", stats.encoded, "Media items that encoders computed."),
            (
                "warmroute_pd_not_encoded",
                stats.not_encoded,
                "Media items that no encoder computed.",
            ),
            ("warmroute_pd_alone", stats.alone, "Requests that named no prefill engine."),
            (
                "warmroute_pd_denied",
                stats.denied,
                "Requests that named an engine that may not be called.",
            ),
            ("warmroute_pd_failed", stats.failed, "Requests that got an error of the proxy's own."),
            ("warmroute_pd_listing_failures", stats.listing_failures, "Endpoints files of no use."),
        ):
            yield CounterMetricFamily(name, text, value=value)


def exposition(stats: Stats) -> bytes:
    """The page."""
    registry = CollectorRegistry()
    registry.register(_Collector(stats))
    return generate_latest(registry)
