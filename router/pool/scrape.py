"""Asks every engine of the pool for its metrics and its models, again and again. IO."""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter

import aiohttp
import msgspec
import structlog
from yarl import URL

from router.pool import exposition, models
from router.pool.dialects import Dialect, dialect_of
from router.pool.endpoint import Endpoint, EngineMetrics
from router.pool.fetch import FetchFailed, fetch, open_session
from router.pool.pool import Pool

FIRST_SPACING_S = 0.005
"""Between the first scrapes of two endpoints, so that a large pool is not scraped in one burst."""

GOOD_FOR_INTERVALS = 3
"""How many intervals old figures may be that anybody goes by."""

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
    """One endpoint, how to reach it and when."""

    def __init__(self, address: str, phase: float, metrics_url: URL) -> None:
        self.address = address
        self.phase = phase
        self.metrics_url = metrics_url
        self.models_url = URL(f"http://{address}/v1/models")
        self.models_due_s = 0.0
        self.failing = False
        self.task: asyncio.Task[None] | None = None


class Scraper:
    """Keeps the engines' figures in a pool fresh, while `run` runs.

    Each endpoint has a task of its own, so its scrapes never overlap, and a slow engine delays no
    other. It follows the pool as a listener.

    The metrics page is asked for at the endpoint's own port unless another one is given; the
    models always at its own.

    Attributes:
        stats: Counters for the owner to read.
        first_pass: Set once every endpoint that was there at the start has been asked.
    """

    def __init__(
        self,
        pool: Pool,
        *,
        interval_s: float = 1.0,
        timeout_s: float = 1.0,
        models_interval_s: float = 10.0,
        path: str = "/metrics",
        port: int | None = None,
    ) -> None:
        self.stats = Stats()
        self.first_pass = asyncio.Event()
        self._pool = pool
        self._interval_s = interval_s
        self._timeout_s = timeout_s
        self._models_interval_s = models_interval_s
        self._good_for_s = GOOD_FOR_INTERVALS * interval_s + timeout_s
        self._path = path
        self._port = port
        self._targets: dict[str, _Target] = {}
        self._untried: set[str] = set()
        self._count = 0
        self._session: aiohttp.ClientSession
        self._group: asyncio.TaskGroup

    async def run(self) -> None:
        """Scrape until cancelled."""
        keepalive_s = 3 * self._interval_s + self._timeout_s
        self._session = open_session(keepalive_s=keepalive_s, timeout_s=self._timeout_s)
        async with self._session, asyncio.TaskGroup() as self._group:
            self._untried = {endpoint.address for endpoint in self._pool.snapshot()}
            self._pool.listen(self)
            if not self._untried:
                self.first_pass.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._pool.unlisten(self)
                self._targets.clear()

    def added(self, endpoint: Endpoint) -> None:
        """Start to scrape an endpoint."""
        url = URL(f"http://{endpoint.address}{self._path}")
        if self._port is not None:
            url = url.with_port(self._port)
        target = _Target(endpoint.address, phase(self._count), url)
        self._count += 1
        self._targets[endpoint.address] = target
        target.task = self._group.create_task(self._follow(target))

    def removed(self, endpoint: Endpoint) -> None:
        """Stop to scrape an endpoint."""
        target = self._targets.pop(endpoint.address)
        if target.task is not None:
            target.task.cancel()
        self._note_tried(endpoint.address)

    def changed(self, endpoint: Endpoint) -> None:
        """Labels are read at each scrape; there is nothing to do."""

    def restarted(self, endpoint: Endpoint) -> None:
        """A new process may serve other models."""
        self._targets[endpoint.address].models_due_s = 0.0

    def died(self, endpoint: Endpoint) -> None:
        """It is asked all the same."""

    def revived(self, endpoint: Endpoint) -> None:
        """It was asked all the time."""

    async def _follow(self, target: _Target) -> None:
        """Visit one endpoint at its share of the interval, for ever."""
        loop = asyncio.get_running_loop()
        began_s, endpoints = loop.time(), len(self._pool.snapshot())
        grid_s = began_s + target.phase * self._interval_s
        due_s = began_s + target.phase * min(self._interval_s, FIRST_SPACING_S * endpoints)
        while True:
            await asyncio.sleep(due_s - loop.time())
            await self._visit(target)
            self._note_tried(target.address)
            due_s = next_due(grid_s, self._interval_s, last_s=due_s, now_s=loop.time())

    async def _visit(self, target: _Target) -> None:
        """Ask for the metrics, and for the models when they are due."""
        try:
            answered = await self._ask_metrics(target)
            now_s = asyncio.get_running_loop().time()
            if answered and now_s >= target.models_due_s:
                target.models_due_s = now_s + self._models_interval_s
                await self._ask_models(target)
        # Whatever one engine answers, the others are still scraped.
        except Exception:
            self.stats.failures["internal"] += 1
            log.exception("scrape.internal_error", endpoint=target.address)

    async def _ask_metrics(self, target: _Target) -> bool:
        """One scrape. True where the engine gave any answer."""
        try:
            body = await fetch(self._session, target.metrics_url)
        except FetchFailed as failure:
            self._note_failure(target, failure)
            return failure.answered
        endpoint = self._pool.get(target.address)
        if endpoint is not None:
            dialect = dialect_of(endpoint.labels)
            metrics = exposition.read(body, dialect, time.time(), self._good_for_s)
            self.stats.ignored_lines += metrics.ignored_lines
            self.stats.incomplete += is_incomplete(metrics, dialect)
            self._pool.scraped(target.address, metrics)
        self._note_success(target)
        return True

    async def _ask_models(self, target: _Target) -> None:
        """What the engine serves; an engine that cannot say keeps what it said before."""
        try:
            served = models.parse_models(await fetch(self._session, target.models_url))
        except FetchFailed as failure:
            self.stats.models_failures[failure.reason] += 1
        except (msgspec.DecodeError, RecursionError):
            self.stats.models_failures["malformed"] += 1
        else:
            self.stats.models += 1
            self._pool.served(target.address, served)

    def _note_success(self, target: _Target) -> None:
        self.stats.scrapes += 1
        if target.failing:
            target.failing = False
            target.models_due_s = 0.0
            log.info("scrape.recovered", endpoint=target.address)

    def _note_failure(self, target: _Target, failure: FetchFailed) -> None:
        self.stats.failures[failure.reason] += 1
        self._pool.scrape_failed(target.address)
        if not target.failing:
            target.failing = True
            log.warning(
                "scrape.failed",
                endpoint=target.address,
                reason=failure.reason,
                detail=failure.detail,
            )

    def _note_tried(self, address: str) -> None:
        self._untried.discard(address)
        if not self._untried:
            self.first_pass.set()


def phase(nth: int) -> float:
    """The share of an interval at which the nth endpoint has its turn.

    Multiples of the golden ratio, modulo one, stay evenly spread however many there are.
    """
    return nth * (math.sqrt(5) - 1) / 2 % 1


def next_due(grid_s: float, interval_s: float, *, last_s: float, now_s: float) -> float:
    """When an endpoint's next turn is: on its grid, not in the past.

    Rounds that were missed are left out. Half an interval lies between two turns at least, so a
    timer that fires early does not get the same turn twice.
    """
    after_s = max(now_s, last_s + interval_s / 2)
    return grid_s + math.ceil((after_s - grid_s) / interval_s) * interval_s


def is_incomplete(metrics: EngineMetrics, dialect: Dialect) -> bool:
    """True where a figure of load is missing that this kind of engine should publish."""
    usage_missing = bool(dialect.kv_usage) and metrics.kv_usage is None
    return metrics.waiting is None or metrics.running is None or usage_missing
