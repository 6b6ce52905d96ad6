from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from structlog.testing import capture_logs

from router.pool.gpus import GpuScraper
from router.pool.page import Page
from router.pool.pool import Pool
from router.pool.sources import DcgmSourceParameters
from tests.router.pool.engines import Engine, running, until
from tests.support import make


@asynccontextmanager
async def reading(pool: Pool, exporter: Engine) -> AsyncIterator[GpuScraper]:
    port = int(exporter.address.rpartition(":")[2])
    scraper = GpuScraper(pool, Page(DcgmSourceParameters(port=port, interval="50ms")))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(scraper.run())
        yield scraper
        task.cancel()


async def test_the_exporter_beside_an_engine_is_read() -> None:
    pool = Pool([make.endpoint("127.0.0.1:8000")])
    async with running(Engine()) as exporter:
        exporter.metrics = 'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 40\n'
        async with reading(pool, exporter):
            await until(lambda: pool.snapshot()[0].attributes == {"GPUUtilization": 0.4})
            exporter.metrics = 'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 90\n'
            await until(lambda: pool.snapshot()[0].attributes == {"GPUUtilization": 0.9})


async def test_a_page_that_fails_again_and_again_leaves_no_attribute() -> None:
    pool = Pool([make.endpoint("127.0.0.1:8000")])
    async with running(Engine()) as exporter:
        exporter.metrics = "DCGM_FI_DEV_GPU_UTIL 40\n"
        with capture_logs() as logs:
            async with reading(pool, exporter) as scraper:
                await until(lambda: bool(pool.snapshot()[0].attributes))
                exporter.metrics = "<html>"
                await until(lambda: scraper.failures["no-metrics"] == 1)
                assert pool.snapshot()[0].attributes == {"GPUUtilization": 0.4}
                await until(lambda: pool.snapshot()[0].attributes == {})
                exporter.status = 500
                await until(lambda: scraper.failures["status"] > 0)
    assert [entry["event"] for entry in logs] == ["gpus.failed"]
