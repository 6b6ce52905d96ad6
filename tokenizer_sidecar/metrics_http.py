"""The sidecar's /metrics and probes over HTTP. IO."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from tokenizer_sidecar.metrics import Sources, exposition, registry


@asynccontextmanager
async def serving_metrics(sources: Sources, host: str, port: int) -> AsyncIterator[None]:
    """Answer while inside. Raises OSError where the port is taken.

    /healthz says the process answers; /readyz is 503 until every model is loaded, and says of each
    what keeps it. A sidecar with some of its models is of use all the same: routers ask for each.
    """
    own = registry(sources)

    async def metrics(request: web.Request) -> web.Response:
        return web.Response(body=exposition(own), headers={"Content-Type": CONTENT_TYPE_LATEST})

    async def healthy(request: web.Request) -> web.Response:
        return web.json_response({"status": "ok"})

    async def ready(request: web.Request) -> web.Response:
        missing = sources.missing()
        told = {name: {"ready": not why, "message": why} for name, why in missing.items()}
        status = 503 if any(missing.values()) else 200
        return web.json_response({"models": told}, status=status)

    app = web.Application()
    app.add_routes(
        [web.get("/metrics", metrics), web.get("/healthz", healthy), web.get("/readyz", ready)]
    )
    runner = web.AppRunner(app, access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        yield
    finally:
        await runner.cleanup()
