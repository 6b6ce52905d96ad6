"""Doctor: asks every check what is wrong, and remembers what takes time to see."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any

from router.pool.endpoint import Endpoint
from router.pool.pool import Pool
from router.producers.inflight import InFlightLoad
from router.producers.prefix import PrecisePrefix
from router.producers.tokens import Backend
from router.telemetry.comparison import Comparison
from router.telemetry.decisions import Decisions, Record
from router.telemetry.doctor import (
    configured,
    crediting,
    matching,
    predicting,
    scraping,
    spreading,
    streams,
    tokenizing,
)
from router.telemetry.doctor.case import SILENCE_S, Case, answers, compared, counters
from router.telemetry.doctor.finding import Finding
from router.telemetry.doctor.window import Lasting, Window
from router.telemetry.samples import Sample, Values
from router.telemetry.state import Configuration

Check = Callable[[Case], Iterator[Finding]]

CHECKS: Sequence[Check] = (
    configured.not_in_force,
    configured.in_vain,
    tokenizing.away,
    tokenizing.falling_back,
    tokenizing.slow,
    scraping.stale,
    scraping.incomplete,
    streams.without_source,
    streams.unusable,
    streams.unreached,
    streams.lost,
    streams.silent,
    streams.restarted,
    streams.gaps,
    streams.joined_late,
    streams.orphans,
    matching.block_size,
    matching.model,
    matching.topic,
    matching.strangers,
    matching.unnamed,
    matching.tokens,
    crediting.groups,
    crediting.index_full,
    crediting.left_out,
    predicting.off,
    spreading.pinned,
)
"""In the order in which findings are told: what explains others comes first."""

LAST: Sequence[Check] = (matching.unconfirmed,)
"""Symptoms: told only of endpoints where no cause was found."""

_CAUSES = frozenset(
    {
        "block-size-differs", "model-differs", "topic-differs", "topic-unknown", "model-unknown",
        "tokenizer-differs", "event-stream-lost", "event-stream-unreached", "no-event-source",
        "no-events", "groups-unknown",
    }
)  # fmt: skip


class Doctor:
    """A listener of the pool; `tick` must be called about once a second.

    The sequences may change while it lives: it looks at what is there now.
    """

    def __init__(
        self,
        pool: Pool,
        decisions: Decisions,
        *,
        prefixes: Sequence[PrecisePrefix],
        tokenizers: Sequence[Backend],
        loads: Sequence[InFlightLoad],
        config: Configuration,
        comparison: Comparison,
        clock: Callable[[], float],
    ) -> None:
        """`comparison` is told of each request elsewhere; `clock` gives Unix time."""
        self.comparison = comparison
        self._config = config
        self._pool = pool
        self._decisions = decisions
        self._prefixes = prefixes
        self._tokenizers = tokenizers
        self._loads = loads
        self._clock = clock
        self._restarts: dict[str, int] = {}
        self._window = Window(clock())
        self._lasting = Lasting()

    def describe(self, silence_s: float | None = None) -> Mapping[str, Any]:
        """All findings, as JSON-able data."""
        return {"at": self._clock(), "findings": self.findings(silence_s)}

    def findings(self, silence_s: float | None = None) -> list[Finding]:
        """What is wrong now. `silence_s`: how long events may stay away."""
        self.tick()
        silence_s = SILENCE_S if silence_s is None else silence_s
        case = self._case(silence_s, list(self._decisions.all()))
        found = [finding for check in CHECKS for finding in check(case)]
        explained = {finding.about for finding in found if finding.code in _CAUSES}
        symptoms = [finding for check in LAST for finding in check(case)]
        return found + [finding for finding in symptoms if finding.about not in explained]

    def tick(self) -> None:
        """Remember what can only be seen over time."""
        case = self._case()
        for endpoint in case.endpoints:
            if not self._window.knows(("hits", endpoint.address)):
                self._begin(case, endpoint)
        self._lasting.follow(case.now, set(_conditions(case)))
        if self._window.due(case.now):
            self._window.take(case.now, counters(case))

    def samples(self) -> Iterator[Sample]:
        """What is wrong, by kind, and what was predicted for each endpoint."""
        codes: Values = dict(Counter((finding.code,) for finding in self.findings()))
        yield Sample("warmroute_findings", "What the doctor finds wrong.", codes, ("code",))
        predicted, label = self.comparison.predicted.items(), ("model_server_endpoint",)
        prompts: Values = {(address,): p.prompt_tokens for address, p in predicted}
        text = "Of answered requests with known tokens."
        yield Sample("warmroute_endpoint_prompt_tokens", text, prompts, label, True)
        cached: Values = {(address,): p.cached_tokens for address, p in predicted}
        text = "Expected to be reused from GPU memory; warmroute_engine_prefix_hits is the check."
        yield Sample("warmroute_endpoint_predicted_cached_tokens", text, cached, label, True)

    # -- as a listener of the pool --------------------------------------------------------------

    def added(self, endpoint: Endpoint) -> None:
        """There is nothing to remember of it yet."""

    def removed(self, endpoint: Endpoint) -> None:
        self.comparison.forget(endpoint.address)
        self._restarts.pop(endpoint.address, None)
        self._window.forget(endpoint.address)

    def changed(self, endpoint: Endpoint) -> None:
        """What is said of it does not matter here."""

    def restarted(self, endpoint: Endpoint) -> None:
        self._restarts[endpoint.address] = self._restarts.get(endpoint.address, 0) + 1
        # Its counters begin at zero, so what is held against them begins now.
        self._begin(self._case(), endpoint)

    def died(self, endpoint: Endpoint) -> None:
        """Its figures grow old, which shows."""

    def revived(self, endpoint: Endpoint) -> None:
        """Its figures are new."""

    def _begin(self, case: Case, endpoint: Endpoint) -> None:
        """Hold predictions against the engine's counters from now on."""
        for name, value in compared(case, endpoint).items():
            self._window.begin((name, endpoint.address), value)

    def _case(self, silence_s: float = SILENCE_S, records: Sequence[Record] = ()) -> Case:
        now = self._clock()
        return Case(
            now=now,
            silence_s=silence_s,
            endpoints=self._pool.snapshot(),
            resolve=self._pool.resolve_model,
            prefixes=self._prefixes,
            tokenizers=self._tokenizers,
            loads=self._loads,
            records=records,
            answers=answers(records),
            comparison=self.comparison,
            restarts=self._restarts,
            grown=self._window.growth,
            window_s=now - self._window.since,
            lasting_s=lambda key: self._lasting.for_s(now, key),
            config=self._config,
        )


def _conditions(case: Case) -> Iterator[Hashable]:
    """What is so now and is only worth a word if it stays so."""
    for endpoint in case.endpoints:
        if endpoint.metrics is None:
            yield "unscraped", endpoint.address
    for prefix in case.prefixes:
        for holder, ledger in prefix.index.ledgers.items():
            if ledger.parked_blocks:
                yield "parked", prefix.name, holder
