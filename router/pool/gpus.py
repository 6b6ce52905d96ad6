"""Keeps the attribute of each endpoint fresh that says how busy its GPUs are. IO."""

from __future__ import annotations

from collections import Counter

import aiohttp
import structlog

from router.pool.dcgm import KEY, gpu_utilization
from router.pool.endpoint import NO_METRICS
from router.pool.fetch import FetchFailed, fetch, open_session
from router.pool.page import Page
from router.pool.pool import DEAD_AFTER, Pool
from router.pool.rounds import Rounds

log = structlog.get_logger()


class GpuScraper:
    """Reads the exporter's page of each endpoint, while `run` runs.

    An endpoint whose page failed three times in a row has the attribute no more.

    Attributes:
        failures: Reads that gave nothing, by reason.
        rounds: When each endpoint has its turn.
    """

    def __init__(self, pool: Pool, page: Page, *, timeout_s: float = 1.0) -> None:
        self.failures: Counter[str] = Counter()
        self.rounds = Rounds(pool, self._visit, page.interval_s)
        self._pool = pool
        self._page = page
        self._timeout_s = timeout_s
        self._failed: Counter[str] = Counter()
        self._session: aiohttp.ClientSession

    async def run(self) -> None:
        """Read until cancelled."""
        keepalive_s = 3 * self._page.interval_s + self._timeout_s
        self._session = open_session(keepalive_s=keepalive_s, timeout_s=self._timeout_s)
        async with self._session:
            await self.rounds.run()

    async def _visit(self, address: str) -> None:
        try:
            utilization = await self._ask(address)
        except FetchFailed as failure:
            self._note_failure(address, failure.reason)
        # Whatever one exporter answers, the others are still read.
        except Exception:
            log.exception("gpus.internal_error", endpoint=address)
            self._note_failure(address, "internal")
        else:
            self._failed.pop(address, None)
            self._pool.attributed(address, {KEY: utilization}, (KEY,))

    async def _ask(self, address: str) -> float:
        """Raises FetchFailed."""
        body = await fetch(self._session, self._page.url(address), self._page.context)
        utilization = gpu_utilization(body)
        if utilization is None:
            raise FetchFailed(NO_METRICS, "the page does not say how busy a GPU is")
        return utilization

    def _note_failure(self, address: str, reason: str) -> None:
        self.failures[reason] += 1
        self._failed[address] += 1
        if self._failed[address] == DEAD_AFTER:
            log.warning("gpus.failed", endpoint=address, reason=reason)
            self._pool.attributed(address, {}, (KEY,))
