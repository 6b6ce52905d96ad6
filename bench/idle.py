"""Idle cost: CPU cores that scraping 100 endpoints once a second takes. IO."""

from __future__ import annotations

import asyncio
import multiprocessing
import sys
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

import uvloop

from router.pool.endpoint import Endpoint
from router.pool.pool import Pool
from router.pool.scrape import Scraper

ENDPOINTS = 100
WARM_UP_S = 2.0
MEASURED_S = 10.0
BUDGET_CORES = 0.15
BASELINE = "7.5 cores (llm-d, published)"

CAPTURES = Path(__file__).parent.parent / "tests" / "captures"


def main() -> int:
    """Print the figure; 1 if it is over its budget."""
    ours, theirs = multiprocessing.Pipe()
    engines = multiprocessing.get_context("spawn").Process(target=_serve_engines, args=(theirs,))
    engines.start()
    try:
        cores, scrapes = uvloop.run(_measure(ours.recv()))
    finally:
        ours.send(None)
        engines.join()
    verdict = "ok" if cores <= BUDGET_CORES else "OVER"
    print(
        f"idle, {ENDPOINTS} endpoints: {cores:.3f} cores at {scrapes / MEASURED_S:.0f} scrapes/s"
        f"  budget {BUDGET_CORES} cores  baseline {BASELINE}  {verdict}"
    )
    return int(verdict == "OVER")


async def _measure(ports: list[int]) -> tuple[float, int]:
    """CPU cores used by this process, and scrapes made, over the measured time."""
    addresses = [f"127.0.0.1:{port}" for port in ports]
    pool = Pool(Endpoint(name=address, address=address) for address in addresses)
    scraper = Scraper(pool)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(scraper.run())
        await scraper.first_pass.wait()
        await asyncio.sleep(WARM_UP_S)
        before, began, cpu = scraper.stats.scrapes, time.perf_counter(), time.process_time()
        await asyncio.sleep(MEASURED_S)
        used, took = time.process_time() - cpu, time.perf_counter() - began
        running.cancel()
    if any(endpoint.metrics is None for endpoint in pool.snapshot()):
        raise RuntimeError(f"not every engine could be scraped: {scraper.stats}")
    return used / took, scraper.stats.scrapes - before


class _Engine(asyncio.Protocol):
    """Answers GETs with recorded bodies, over a connection that stays open."""

    def __init__(self, answers: dict[bytes, bytes]) -> None:
        self._answers = answers
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is one by what it does, not by its class.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        # A GET without a body arrives in one piece on loopback.
        self._transport.write(self._answers[data.split(b" ", 2)[1]])


def _serve_engines(pipe: Connection) -> None:
    uvloop.run(_serve_until_told(pipe))


async def _serve_until_told(pipe: Connection) -> None:
    """Open the engines' ports, say which, and serve until the other side speaks."""
    answers = {
        b"/metrics": _answer("vllm_metrics_load.txt", "text/plain"),
        b"/v1/models": _answer("models.json", "application/json"),
    }
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(lambda: _Engine(answers), "127.0.0.1", 0) for _ in range(ENDPOINTS)
    ]
    pipe.send([server.sockets[0].getsockname()[1] for server in servers])
    await asyncio.to_thread(pipe.recv)


def _answer(capture: str, content_type: str) -> bytes:
    body = (CAPTURES / capture).read_bytes()
    head = f"HTTP/1.1 200 OK\r\nContent-Type: {content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
    return head.encode() + body


if __name__ == "__main__":
    sys.exit(main())
