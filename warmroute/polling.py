"""What is read of endpoints over and over, as the configuration in force says. IO."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from router.config.data_layer import DataLayer
from router.pool.gpus import GpuScraper
from router.pool.page import Page
from router.pool.pool import Pool
from router.pool.scrape import Scraper
from router.telemetry import data_layer
from router.telemetry.samples import Sample
from warmroute.errors import StartError


class Polling:
    """Owns the scrapers and their tasks.

    Attributes:
        scraper: Reads metrics and models; None before the first configuration.
        gpus: Read the pages of GPU exporters.
    """

    def __init__(self, pool: Pool, group: asyncio.TaskGroup, interval_s: float | None) -> None:
        """`interval_s` takes the place of the configured one for metrics."""
        self.scraper: Scraper | None = None
        self.gpus: list[GpuScraper] = []
        self._pool = pool
        self._group = group
        self._interval_s = interval_s
        self._data: DataLayer | None = None
        self._tasks: list[asyncio.Task[None]] = []

    def prepared(self, data: DataLayer) -> tuple[Scraper, list[GpuScraper]]:
        """What would read these. Raises StartError."""
        try:
            scraper = Scraper(
                self._pool,
                metrics=None if data.metrics is None else Page(data.metrics),
                models=Page(data.models),
                dialects=data.core.dialects(),
                interval_s=self._interval_s if data.metrics is not None else None,
            )
            return scraper, [GpuScraper(self._pool, Page(source)) for source in data.gpus]
        except OSError as error:
            raise StartError(f"dataLayer: a certificate cannot be used: {error}") from error

    def adopt(self, data: DataLayer) -> None:
        """Read these from now on; what is known stays. Raises StartError, and then nothing
        changed."""
        if data == self._data:
            return
        scraper, gpus = self.prepared(data)
        self.close()
        self.scraper, self.gpus, self._data = scraper, gpus, data
        runs = [scraper.run(), *(gpu.run() for gpu in gpus)]
        self._tasks = [self._group.create_task(run) for run in runs]

    def samples(self) -> Iterator[Sample]:
        """What was read, for the metrics page."""
        if self.scraper is not None:
            yield from data_layer.samples(self.scraper, self.gpus)

    def close(self) -> None:
        """Read no more."""
        for task in self._tasks:
            task.cancel()
        self._tasks = []
