"""Every metric the router publishes, with its labels.

What happens on the hot path is counted here; what others count (the sidecar's client, the index,
the pool) is read from them when the page is asked for. Names starting with ``llm_d_epp_`` mean what
they mean in llm-d; ``warmroute_`` ones are ours.
"""

from __future__ import annotations

from collections.abc import Callable

from prometheus_client import CollectorRegistry

from router.errors import RouterError
from router.producers.accounts import DEFAULT_FLOW
from router.telemetry.answers import Answers
from router.telemetry.counts import Counts, Names
from router.telemetry.decisions import Record
from router.telemetry.families import Families
from router.telemetry.legacy import WithLegacyNames
from router.telemetry.samples import Capped, Collects, Source, Sources, Told
from router.telemetry.series import LABELS, AllSeries, Series

OTHER_MODELS = "other"
"""What models are called together that no endpoint serves: clients invent names freely."""

MAX_MODELS = 1000
"""Adapters come and go: further names are told as that, too, like llm-d does."""

MAX_FAIRNESS_IDS = 1000
"""Clients invent these, too: further ones are counted under one name."""

OTHER_FAIRNESS_ID = "other"

MAX_SERIES = 2000
"""Label sets of requests, of some 130 values each. Models and priorities multiply accounts: beyond
this, further accounts of a model are counted under one name."""


class Metrics:
    """The router's registry; told of each request as an Observer of the director.

    Attributes:
        registry: Everything under its present name.
    """

    def __init__(
        self,
        is_served: Callable[[str], bool],
        *,
        endpoint: Callable[[str], tuple[str, str]] = lambda address: (address, ""),
        plugin: Callable[[str], str] = lambda name: name,
        legacy_names: bool = False,
    ) -> None:
        """`is_served` tells the model names that become label values.

        `endpoint`: name and namespace of an address. `plugin`: type of an instance name.
        `legacy_names`: publish what has an older name under that, too.
        """
        self._is_served = is_served
        self._legacy_names = legacy_names
        self._own = CollectorRegistry()
        self._sources = Sources()
        self.registry = CollectorRegistry()
        self.registry.register(self._sources)
        self.registry.register(self._own)
        self._counts = Counts(Names(self._shown, endpoint, plugin))
        self.watch(self._counts.samples)
        self._series = AllSeries()
        # Not watched: they may be many, and any thread may read them.
        self._own.register(Sources(self._series.samples))
        # By identity: client's ids come again, and models are loaded and unloaded meanwhile.
        self._open: dict[int, Series] = {}
        self._models, self._fairness_ids = Capped(MAX_MODELS), Capped(MAX_FAIRNESS_IDS)
        self._answers = Answers(Families(self._own))
        self._declare(Families(self._own))

    def _declare(self, make: Families) -> None:
        labels = (*LABELS, "error_code")
        self._errors = make.counter("request_error", "Requests that ended in an error.", labels)
        self._rewrites = make.counter(
            "model_rewrite_decisions",
            "Requests sent to another model than they named.",
            ("model_rewrite_name", "model_name", "target_model"),
        )
        self._stages = make.counter(
            "disagg_decision",
            "Requests of handlers with several stages: what was decided, or who was missing.",
            ("model_name", "decision_type"),
        )
        self._prefills = make.ours(
            "prefill_results",
            "Prefills on endpoints of their own, as decode sidecars report them.",
            ("result",),
        )
        self._unparsed = make.ours("unparsed_requests", "Requests routed by load, not read.")

    @property
    def published(self) -> Collects:
        """What the metrics page shows. What sources count is asked for here; then any thread may
        read it, which takes long where there are many label sets."""
        page = Told([*self._sources.collect()], self._own)
        return WithLegacyNames(page) if self._legacy_names else page

    def timer(self, point: str, plugin: str) -> Callable[[float], None]:
        """Takes what a plugin that is called at `point` takes, in seconds."""
        return self._counts.timer(point, plugin)

    def watch(self, source: Source) -> None:
        """Publish what `source` counts."""
        self._sources.sources.append(source)

    def account(self, value: str) -> str:
        """What an account is called in labels."""
        return value if self._fairness_ids.take(value) else self._folded(value)

    def routed(self, record: Record) -> None:
        """A request has its endpoint."""
        series = self._open[id(record)] = self._of(record)
        series.requests += 1
        series.running += 1
        if record.request_bytes is not None:
            series.size.observe(record.request_bytes)
        self._counts.routed(record)
        self._series.decisions.observe(record.took_ms / 1e3)
        if record.own_ms is not None:
            self._series.request_work.observe(record.own_ms / 1e3)
        if record.kind == "other":
            self._unparsed.inc()
        if record.stages:
            self._stages.labels(self._shown(record.model), record.stages).inc()
        if record.rewritten_by:
            models = (self._shown(record.model), self._shown(record.target_model))
            self._rewrites.labels(record.rewritten_by, *models).inc()
        if record.prompt_tokens is not None:
            self._series.prompt_tokens += record.prompt_tokens
        if record.predicted_cached_tokens is not None:
            self._series.predicted_tokens += record.predicted_cached_tokens

    def refused(self, record: Record, error: RouterError) -> None:
        """A request was refused."""
        self._counts.refused(record)
        if record.own_ms is not None:
            self._series.request_work.observe(record.own_ms / 1e3)
        model = self._of(record)
        model.requests += 1
        self._errors.labels(*model.labels, error.kind).inc()
        if error.stage:
            self._stages.labels(model.labels[0], f"no-{error.stage}").inc()

    def gap(self, record: Record, seconds: float) -> None:
        """Another piece of a streamed answer came."""
        series = self._open.get(id(record)) or self._of(record)
        series.gaps.observe(seconds)

    def ended(self, record: Record) -> None:
        """A request's exchange is over."""
        model = self._open.pop(id(record), None) or self._of(record)
        model.running -= 1
        if record.duration_ms is not None:
            model.duration.observe(record.duration_ms / 1e3)
        if record.status is not None:
            self._series.answer_work.observe(record.answer_ms / 1e3)
        if record.status is None or record.status >= 400:
            code = "Abandoned" if record.status is None else f"HTTP{record.status}"
            self._errors.labels(*model.labels, code).inc()
        if record.prefill_result is not None:
            self._prefills.labels(record.prefill_result).inc()
        self._answers.ended(record, model.labels)

    def _of(self, record: Record) -> Series:
        """The series of a request's labels."""
        name = self._shown(record.model)
        target = name
        if record.target_model and record.target_model != record.model:
            target = self._shown(record.target_model)
        fairness, priority = self.account(record.fairness_id), str(record.priority)
        labels = (name, target, fairness, priority)
        known = self._series.get(labels)
        if known is None and len(self._series) >= MAX_SERIES:
            labels = (name, target, self._folded(fairness), priority)
            known = self._series.get(labels)
        return self._series.add(labels) if known is None else known

    def _folded(self, fairness: str) -> str:
        """Requests without an account stay what they are, however many accounts there are."""
        return fairness if fairness == DEFAULT_FLOW else OTHER_FAIRNESS_ID

    def _shown(self, model: str) -> str:
        served = self._is_served(model) and self._models.take(model)
        return model if served else OTHER_MODELS
