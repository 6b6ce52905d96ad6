"""The sidecar's /metrics over HTTP. IO."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from tokenizer_sidecar.metrics import Sources, exposition, registry


@asynccontextmanager
async def serving_metrics(sources: Sources, host: str, port: int) -> AsyncIterator[None]:
    """Answer GET /metrics while inside. Raises OSError where the port is taken."""
    own = registry(sources)

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(body=exposition(own), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/metrics", metrics)
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()
