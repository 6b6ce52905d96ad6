"""Asks every engine of the pool for its metrics and its models, again and again. IO."""

from __future__ import annotations

import asyncio
import time
from collections import Counter

import aiohttp
import msgspec
import structlog

from router.pool import exposition, models
from router.pool.dialects import Dialect, Dialects
from router.pool.endpoint import GOOD_FOR_INTERVALS, NO_METRICS, Endpoint, EngineMetrics
from router.pool.fetch import FetchFailed, fetch, open_session
from router.pool.page import Page
from router.pool.pool import Pool
from router.pool.rounds import Rounds
from router.pool.sources import MetricsSourceParameters, ModelsSourceParameters

_METRICS = Page(MetricsSourceParameters())
_MODELS = Page(ModelsSourceParameters())

MALFORMED = "malformed"
"""What a list of models is called that cannot be read."""

log = structlog.get_logger()


class Stats(msgspec.Struct):
    """What the scraper has done since it started.

    Attributes:
        scrapes: Scrapes that gave a metrics page.
        failures: Those that did not, by reason.
        incomplete: Pages that lacked the queue length, the running requests or the KV usage.
        ignored_lines: Lines of needed families that could not be read.
        models: Lists of models that were read.
        models_failures: Those that could not be, by reason.
    """

    scrapes: int = 0
    failures: Counter[str] = msgspec.field(default_factory=Counter)
    incomplete: int = 0
    ignored_lines: int = 0
    models: int = 0
    models_failures: Counter[str] = msgspec.field(default_factory=Counter)


class _Target:
    """What is remembered of one endpoint between its scrapes."""

    def __init__(self) -> None:
        self.models_due_s = 0.0
        self.failing = False


class Scraper:
    """Keeps the engines' figures in a pool fresh, while `run` runs.

    Attributes:
        stats: Counters for the owner to read.
        rounds: When each endpoint has its turn.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        metrics: Page | None = _METRICS,
        models: Page = _MODELS,
        dialects: Dialects = Dialects(),  # noqa: B008 - frozen
        interval_s: float | None = None,
        models_interval_s: float | None = None,
        timeout_s: float = 1.0,
    ) -> None:
        """`metrics` is None where none are read. Intervals take the place of those of the pages."""
        pages_s = metrics.interval_s if metrics is not None else models.interval_s
        self._interval_s = pages_s if interval_s is None else interval_s
        self.stats = Stats()
        self.rounds = Rounds(pool, self._visit, self._interval_s)
        self._pool = pool
        self._metrics = metrics
        self._models = models
        self._dialects = dialects
        self._models_interval_s = models_interval_s or models.interval_s
        self._timeout_s = timeout_s
        self._good_for_s = GOOD_FOR_INTERVALS * self._interval_s + timeout_s
        self._targets: dict[str, _Target] = {}
        self._session: aiohttp.ClientSession

    @property
    def first_pass(self) -> asyncio.Event:
        """Set once every endpoint that was there at the start has been asked."""
        return self.rounds.first_pass

    async def run(self) -> None:
        """Scrape until cancelled."""
        keepalive_s = 3 * self._interval_s + self._timeout_s
        self._session = open_session(keepalive_s=keepalive_s, timeout_s=self._timeout_s)
        async with self._session:
            self._pool.listen(self)
            try:
                await self.rounds.run()
            finally:
                self._pool.unlisten(self)
                self._targets.clear()

    def added(self, endpoint: Endpoint) -> None:
        """It has its first turn soon."""

    def removed(self, endpoint: Endpoint) -> None:
        """What was remembered of it is void."""
        self._targets.pop(endpoint.address, None)

    def changed(self, endpoint: Endpoint) -> None:
        """Labels are read at each scrape; there is nothing to do."""

    def restarted(self, endpoint: Endpoint) -> None:
        """A new process may serve other models."""
        self._target(endpoint.address).models_due_s = 0.0

    def died(self, endpoint: Endpoint) -> None:
        """It is asked all the same."""

    def revived(self, endpoint: Endpoint) -> None:
        """It was asked all the time."""

    def _target(self, address: str) -> _Target:
        return self._targets.setdefault(address, _Target())

    async def _visit(self, address: str) -> None:
        """Ask for the metrics, and for the models when they are due."""
        try:
            answered = self._metrics is None or await self._ask_metrics(address, self._metrics)
            now_s, target = asyncio.get_running_loop().time(), self._target(address)
            if answered and now_s >= target.models_due_s:
                target.models_due_s = now_s + self._models_interval_s
                await self._ask_models(address)
        # Whatever one engine answers, the others are still scraped.
        except Exception:
            self.stats.failures["internal"] += 1
            log.exception("scrape.internal_error", endpoint=address)

    async def _ask_metrics(self, address: str, page: Page) -> bool:
        """One scrape. True where the engine gave any answer."""
        try:
            self._take(address, await fetch(self._session, page.url(address), page.context))
        except FetchFailed as failure:
            self._note_failure(address, failure)
            return failure.answered
        self._note_success(address)
        return True

    def _take(self, address: str, body: bytes) -> None:
        """Hand a page's figures to the pool. Raises FetchFailed where it has none."""
        endpoint = self._pool.get(address)
        if endpoint is None:
            return
        dialect = self._dialects.of(endpoint.labels)
        metrics = exposition.read(body, dialect, time.time(), self._good_for_s)
        if not exposition.says_something(metrics):
            raise FetchFailed(NO_METRICS, "the page holds no figure of an engine")
        self.stats.ignored_lines += metrics.ignored_lines
        self.stats.incomplete += is_incomplete(metrics, dialect)
        self._pool.scraped(address, metrics)
        if dialect.custom:
            self._pool.attributed(address, exposition.attributes(body, dialect), dialect.keys)

    async def _ask_models(self, address: str) -> None:
        """What the engine serves; an engine that cannot say keeps what it said before."""
        url, tls = self._models.url(address), self._models.context
        try:
            served = models.parse_models(await fetch(self._session, url, tls))
        except FetchFailed as failure:
            self.stats.models_failures[failure.reason] += 1
        except (msgspec.DecodeError, RecursionError):
            self.stats.models_failures[MALFORMED] += 1
        else:
            self.stats.models += 1
            self._pool.served(address, served)

    def _note_success(self, address: str) -> None:
        self.stats.scrapes += 1
        target = self._target(address)
        if target.failing:
            target.failing = False
            target.models_due_s = 0.0
            log.info("scrape.recovered", endpoint=address)

    def _note_failure(self, address: str, failure: FetchFailed) -> None:
        self.stats.failures[failure.reason] += 1
        self._pool.scrape_failed(address, failure.reason)
        target = self._target(address)
        if not target.failing:
            target.failing = True
            log.warning(
                "scrape.failed", endpoint=address, reason=failure.reason, detail=failure.detail
            )


def is_incomplete(metrics: EngineMetrics, dialect: Dialect) -> bool:
    """True where a figure of load is missing that this kind of engine should publish."""
    usage_missing = bool(dialect.kv_usage) and metrics.kv_usage is None
    return metrics.waiting is None or metrics.running is None or usage_missing
