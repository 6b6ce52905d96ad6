"""Idle cost: CPU cores that scraping 100 endpoints once a second takes. IO."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Sequence

import uvloop

from bench.engine import Behaviour, engines
from bench.figures import Figure
from bench.report import report
from router.pool.endpoint import Endpoint
from router.pool.pool import Pool
from router.pool.scrape import Scraper

ENDPOINTS = 100
WARM_UP_S = 2.0
MEASURED_S = 10.0
BUDGET_CORES = 0.15
BASELINE = "7.5 cores (llm-d, published)"


def figures(endpoints: int = ENDPOINTS, measured_s: float = MEASURED_S) -> list[Figure]:
    """Measure it."""
    busy = Behaviour(metrics="vllm_metrics_load.txt")
    with engines(["127.0.0.1"] * endpoints, busy) as (addresses, _):
        names = [f"{host}:{port}" for host, port in addresses]
        cores, scrapes = uvloop.run(_measure(names, measured_s))
    return [
        Figure(
            name=f"idle, {endpoints} endpoints",
            value=cores,
            unit="cores",
            budget=BUDGET_CORES,
            baseline=BASELINE,
            note=f"{scrapes / measured_s:.0f} scrapes/s",
        )
    ]


async def _measure(addresses: Sequence[str], measured_s: float) -> tuple[float, int]:
    """CPU cores used by this process, and scrapes made, over the measured time."""
    pool = Pool(Endpoint(name=address, address=address) for address in addresses)
    scraper = Scraper(pool)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(scraper.run())
        await scraper.first_pass.wait()
        await asyncio.sleep(WARM_UP_S)
        before, began, cpu = scraper.stats.scrapes, time.perf_counter(), time.process_time()
        await asyncio.sleep(measured_s)
        used, took = time.process_time() - cpu, time.perf_counter() - began
        running.cancel()
    if any(endpoint.metrics is None for endpoint in pool.snapshot()):
        raise RuntimeError(f"not every engine could be scraped: {scraper.stats}")
    return used / took, scraper.stats.scrapes - before


if __name__ == "__main__":
    sys.exit(report({"idle": figures}))
