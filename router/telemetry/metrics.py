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
from router.request.usage import Usage
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

PER_TOKEN_BUCKETS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10)

TOKEN_BUCKETS = (1, *(2**n for n in range(3, 21)))

OTHER_MODELS = "other"
"""What models are called together that no endpoint serves: clients invent names freely."""


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


class _ModelMetrics(msgspec.Struct):
    """The series that every request of a model touches; `gaps` once an answer was streamed."""

    labels: tuple[str, ...]
    requests: Counter
    duration: Histogram
    gaps: Histogram | None = None


class Metrics:
    """The router's registry; told of each request as an Observer of the director."""

    def __init__(self, is_served: Callable[[str], bool]) -> None:
        """`is_served` tells the model names that become label values."""
        self._is_served = is_served
        self.registry = CollectorRegistry()
        self._sources = _Sources()
        self.registry.register(self._sources)
        self._models: dict[tuple[str, str], _ModelMetrics] = {}
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
        self._first = Histogram(
            "llm_d_epp_request_ttft_seconds",
            "From the pick to the first piece of the answer, where its body is seen.",
            (*REQUEST_LABELS, "streaming"),
            buckets=DURATION_BUCKETS,
            registry=self.registry,
        )
        self._gaps = self._histogram(
            "request_streaming_itl_seconds",
            "Between two pieces of a streamed answer, where its body is seen.",
            PER_TOKEN_BUCKETS,
        )
        self._per_token = self._histogram(
            "request_streaming_tpot_seconds",
            "Per generated token after the first, of streamed answers whose usage is read.",
            PER_TOKEN_BUCKETS,
        )
        self._normalized = self._histogram(
            "request_ntpot_seconds",
            "Whole time per generated token, where usage is read.",
            PER_TOKEN_BUCKETS,
        )
        self._decision = Histogram(
            "llm_d_epp_scheduler_e2e_duration_seconds",
            "From the last byte of a request to the pick.",
            buckets=DECISION_BUCKETS,
            registry=self.registry,
        )
        self._rewrites = self._counter(
            "model_rewrite_decisions",
            "Requests sent to another model than they named.",
            ("model_rewrite_name", "model_name", "target_model"),
        )
        self._stages = self._counter(
            "disagg_decision",
            "Requests of handlers with several stages: what was decided, or who was missing.",
            ("model_name", "decision_type"),
        )
        self._prefills = Counter(
            "warmroute_prefill_results",
            "Prefills on endpoints of their own, as decode sidecars report them.",
            ("result",),
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
        self._of(record).requests.inc()
        self._decision.observe(record.took_ms / 1e3)
        if record.kind == "other":
            self._unparsed.inc()
        if record.stages:
            self._stages.labels(self._shown(record.model), record.stages).inc()
        if record.rewritten_by:
            models = (self._shown(record.model), self._shown(record.target_model))
            self._rewrites.labels(record.rewritten_by, *models).inc()
        if record.prompt_tokens is not None:
            self._prompt.inc(record.prompt_tokens)
        if record.predicted_cached_tokens is not None:
            self._predicted.inc(record.predicted_cached_tokens)

    def refused(self, record: Record, error: RouterError) -> None:
        """A request was refused."""
        model = self._of(record)
        model.requests.inc()
        self._errors.labels(*model.labels, error.kind).inc()
        if error.stage:
            self._stages.labels(model.labels[0], f"no-{error.stage}").inc()

    def gap(self, record: Record, seconds: float) -> None:
        """Another piece of a streamed answer came."""
        model = self._of(record)
        if model.gaps is None:
            model.gaps = self._gaps.labels(*model.labels)
        model.gaps.observe(seconds)

    def ended(self, record: Record) -> None:
        """A request's exchange is over."""
        model = self._of(record)
        if record.first_ms is not None:
            streaming = str(record.streamed).lower()
            self._first.labels(*model.labels, streaming).observe(record.first_ms / 1e3)
        if record.duration_ms is not None:
            model.duration.observe(record.duration_ms / 1e3)
        if record.status is None or record.status >= 400:
            code = "Abandoned" if record.status is None else f"HTTP{record.status}"
            self._errors.labels(*model.labels, code).inc()
        if record.prefill_result is not None:
            self._prefills.labels(record.prefill_result).inc()
        if record.usage_unreadable:
            self._unreadable.inc()
        if record.usage is not None:
            self._usage(record, record.usage, model.labels)

    def _usage(self, record: Record, usage: Usage, labels: tuple[str, ...]) -> None:
        self._input.labels(*labels).observe(usage.prompt_tokens)
        self._output.labels(*labels).observe(usage.completion_tokens)
        self._times(record, usage.completion_tokens, labels)
        if usage.cached_tokens is None:
            return
        self._cached.labels(*labels).observe(usage.cached_tokens)
        if record.predicted_cached_tokens is not None:
            self._compared.inc(usage.cached_tokens)
            self._compared_predicted.inc(record.predicted_cached_tokens)

    def _times(self, record: Record, tokens: int, labels: tuple[str, ...]) -> None:
        whole_ms = record.duration_ms
        if whole_ms is None or tokens < 1:
            return
        self._normalized.labels(*labels).observe(whole_ms / 1e3 / tokens)
        if record.streamed and record.first_ms is not None and tokens > 1:
            rest_s = (whole_ms - record.first_ms) / 1e3
            self._per_token.labels(*labels).observe(rest_s / (tokens - 1))

    def _of(self, record: Record) -> _ModelMetrics:
        """The series of a request's models; looked up once, since that costs."""
        name = self._shown(record.model)
        target = name
        if record.target_model and record.target_model != record.model:
            target = self._shown(record.target_model)
        known = self._models.get((name, target))
        if known is not None:
            return known
        labels = (name, target, "default-flow", "0")
        made = _ModelMetrics(labels, self._requests.labels(*labels), self._duration.labels(*labels))
        self._models[name, target] = made
        return made

    def _shown(self, model: str) -> str:
        return model if self._is_served(model) else OTHER_MODELS

    def _counter(self, name: str, text: str, labels: Sequence[str]) -> Counter:
        return Counter(f"llm_d_epp_{name}", text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(
            f"llm_d_epp_{name}", text, REQUEST_LABELS, buckets=buckets, registry=self.registry
        )

    def _ours(self, name: str, text: str) -> Counter:
        return Counter(f"warmroute_{name}", text, registry=self.registry)
