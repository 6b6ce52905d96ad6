"""A small engine for tests: serves given bodies on a port of its own, counts requests. IO."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from aiohttp import web

METRICS = (
    'vllm:num_requests_waiting{engine="0"} 3\n'
    'vllm:num_requests_running{engine="0"} 2\n'
    'vllm:kv_cache_usage_perc{engine="0"} 0.5\n'
    "process_start_time_seconds 100\n"
)
MODELS = '{"data": [{"id": "tiny", "root": "org/tiny", "parent": null}]}'


class Engine:
    """Answers ``/metrics`` and ``/v1/models``; what it answers can be changed at any time."""

    def __init__(self) -> None:
        self.address = ""
        self.metrics = METRICS
        self.models = MODELS
        self.status = 200
        self.headers: dict[str, str] = {}
        self.answering = asyncio.Event()
        self.answering.set()
        self.asked: Counter[str] = Counter()
        self.at_once = 0
        self.most_at_once = 0
        self.connections: set[object] = set()

    async def answer(self, request: web.Request) -> web.Response:
        """One request, answered when the engine is answering."""
        self.asked[request.path] += 1
        self.connections.add(request.transport)
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        try:
            await self.answering.wait()
        finally:
            self.at_once -= 1
        text = self.models if request.path == "/v1/models" else self.metrics
        return web.Response(text=text, status=self.status, headers=self.headers)


@asynccontextmanager
async def running(engine: Engine, port: int = 0) -> AsyncIterator[Engine]:
    """Serve an engine on loopback, on a free port unless one is given."""
    app = web.Application()
    app.router.add_get("/{path:.*}", engine.answer)
    runner = web.AppRunner(app, shutdown_timeout=0, handler_cancellation=True)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", port)
        await site.start()
        engine.address = "{}:{}".format(*runner.addresses[0][:2])
        yield engine
    finally:
        await runner.cleanup()


async def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition; fails after ten seconds."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 - what is waited for has no event to set
            await asyncio.sleep(0.005)
