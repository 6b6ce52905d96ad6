"""Every metric the router publishes, with its labels.

What happens on the hot path is counted here; what others count (the sidecar's client, the index,
the pool) is read from them when the page is asked for. Names starting with ``llm_d_epp_`` mean what
they mean in llm-d; ``warmroute_`` ones are ours.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Protocol

import msgspec
from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from router.errors import RouterError
from router.telemetry.decisions import Record

REQUEST_LABELS = ("model_name", "target_model_name", "fairness_id", "priority")

DURATION_BUCKETS = (
    0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45,
    60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600,
)  # fmt: skip
"""Seconds; llm-d's buckets, so that its dashboards fit."""

DECISION_BUCKETS = (
    0.0001,
    0.0002,
    0.0005,
    0.001,
    0.002,
    0.005,
    0.01,
    0.02,
    0.05,
    0.1,
    0.2,
    0.5,
    1,
    2,
)

TOKEN_BUCKETS = (1, *(2**n for n in range(3, 21)))

MAX_MODEL_NAMES = 1000
"""Distinct model names that become label values; clients invent them freely."""


Values = Mapping[tuple[str, ...], float]
"""Label values -> value."""


class Sample(msgspec.Struct, frozen=True):
    """One value that somebody else counts.

    Attributes:
        name: Metric name, a counter's without ``_total``.
        help: One sentence.
        counter: A counter; else a gauge.
        values: Label values -> value.
        labels: Label names.
    """

    name: str
    help: str
    values: Values
    labels: Sequence[str] = ()
    counter: bool = False


class Source(Protocol):
    """Whoever counts something."""

    def __call__(self) -> Iterable[Sample]:
        """What it counts, now."""
        ...


class _Sources:
    """A collector that asks the sources."""

    def __init__(self) -> None:
        self.sources: list[Callable[[], Iterable[Sample]]] = []

    def collect(self) -> Iterator[Metric]:
        for source in self.sources:
            for sample in source():
                family = CounterMetricFamily if sample.counter else GaugeMetricFamily
                metric = family(sample.name, sample.help, labels=sample.labels)
                for labels, value in sample.values.items():
                    metric.add_metric(labels, value)
                yield metric


class Metrics:
    """The router's registry; told of each request as an Observer of the director."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._sources = _Sources()
        self.registry.register(self._sources)
        self._models: set[str] = set()
        self._requests = self._counter("request", "Requests routed or refused.", REQUEST_LABELS)
        labels = (*REQUEST_LABELS, "error_code")
        self._errors = self._counter("request_error", "Requests that ended in an error.", labels)
        self._duration = self._histogram(
            "request_duration_seconds", "From the pick to the end.", DURATION_BUCKETS
        )
        self._input = self._histogram("request_input_tokens", "Prompt tokens.", TOKEN_BUCKETS)
        self._output = self._histogram("request_output_tokens", "Generated tokens.", TOKEN_BUCKETS)
        self._cached = self._histogram(
            "request_cached_tokens",
            "Prompt tokens the engine reused, as it reports.",
            TOKEN_BUCKETS,
        )
        self._decision = Histogram(
            "llm_d_epp_scheduler_e2e_duration_seconds",
            "From the last byte of a request to the pick.",
            buckets=DECISION_BUCKETS,
            registry=self.registry,
        )
        self._predicted = self._ours("predicted_cached_tokens", "Expected to be reused.")
        self._compared = self._ours("compared_cached_tokens", "Reused, where both are known.")
        self._compared_predicted = self._ours(
            "compared_predicted_cached_tokens", "Expected to be reused, where both are known."
        )
        self._prompt = self._ours("prompt_tokens", "Prompt tokens of requests with known tokens.")
        self._unparsed = self._ours("unparsed_requests", "Requests routed by load, not read.")
        self._unreadable = self._ours("unreadable_usage", "Answers whose usage cannot be read.")

    def watch(self, source: Callable[[], Iterable[Sample]]) -> None:
        """Publish what `source` counts."""
        self._sources.sources.append(source)

    def routed(self, record: Record) -> None:
        """A request has its endpoint."""
        self._requests.labels(*self._labels(record)).inc()
        self._decision.observe(record.took_ms / 1e3)
        if record.kind == "other":
            self._unparsed.inc()
        if record.prompt_tokens is not None:
            self._prompt.inc(record.prompt_tokens)
        if record.predicted_cached_tokens is not None:
            self._predicted.inc(record.predicted_cached_tokens)

    def refused(self, record: Record, error: RouterError) -> None:
        """A request was refused."""
        labels = self._labels(record)
        self._requests.labels(*labels).inc()
        self._errors.labels(*labels, error.kind).inc()

    def ended(self, record: Record) -> None:
        """A request's exchange is over."""
        labels = self._labels(record)
        if record.duration_ms is not None:
            self._duration.labels(*labels).observe(record.duration_ms / 1e3)
        if record.status is None or record.status >= 400:
            code = "Abandoned" if record.status is None else f"HTTP{record.status}"
            self._errors.labels(*labels, code).inc()
        if record.usage_unreadable:
            self._unreadable.inc()
        self._usage(record, labels)

    def _usage(self, record: Record, labels: tuple[str, ...]) -> None:
        usage = record.usage
        if usage is None:
            return
        self._input.labels(*labels).observe(usage.prompt_tokens)
        self._output.labels(*labels).observe(usage.completion_tokens)
        if usage.cached_tokens is None:
            return
        self._cached.labels(*labels).observe(usage.cached_tokens)
        if record.predicted_cached_tokens is not None:
            self._compared.inc(usage.cached_tokens)
            self._compared_predicted.inc(record.predicted_cached_tokens)

    def _labels(self, record: Record) -> tuple[str, ...]:
        model = record.model
        if model not in self._models:
            if len(self._models) < MAX_MODEL_NAMES:
                self._models.add(model)
            else:
                model = "other"
        return (model, model, "default-flow", "0")

    def _counter(self, name: str, text: str, labels: Sequence[str]) -> Counter:
        return Counter(f"llm_d_epp_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(
            f"llm_d_epp_{name}", text, REQUEST_LABELS, buckets=buckets, registry=self.registry
        )

    def _ours(self, name: str, text: str) -> Counter:
        return Counter(f"warmroute_{name}", text, registry=self.registry)
