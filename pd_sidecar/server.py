"""A decode sidecar, served: assembles the parts, binds the ports, runs until told to stop. IO."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack, asynccontextmanager

from aiohttp import web
from prometheus_client import CONTENT_TYPE_LATEST

from pd_sidecar.allow import AllowList
from pd_sidecar.config import Config
from pd_sidecar.connectors.table import CONNECTORS
from pd_sidecar.engines import HttpEngines, session
from pd_sidecar.metrics import exposition
from pd_sidecar.proxy import Proxy
from pd_sidecar.stats import Stats
from pd_sidecar.watch import Watch

STOP_S = 60.0
"""How long answers in progress get when the proxy stops."""

MAX_HEADER_BYTES = 1024 * 1024


async def serve(config: Config, ready: Callable[[], None], stop: asyncio.Event) -> None:
    """Run until `stop` is set.

    Raises ListingError or OSError where the endpoints file is no use, a group with an OSError where
    a port is taken.
    """
    async with running(config):
        ready()
        await stop.wait()


@asynccontextmanager
async def running(config: Config) -> AsyncIterator[Stats]:
    """A sidecar that takes requests for as long as the context is open. Raises as `serve` does."""
    stats = Stats()
    allow = AllowList(config.allowed, everything=config.open)
    watch = Watch(allow, config.endpoints, stats)
    await watch.load()
    async with asyncio.TaskGroup() as tasks, AsyncExitStack() as stack:
        watching = tasks.create_task(watch.run())
        stack.callback(watching.cancel)
        engines = HttpEngines(await stack.enter_async_context(session()), config)
        connector = CONNECTORS[config.connector](engines, config)
        if config.metrics_port is not None:
            await _listen(stack, _metrics(stats), config.host, config.metrics_port)
        for rank in range(config.ranks):
            proxy = Proxy(config, engines, connector, allow, stats, rank)
            await _listen(stack, _proxying(proxy, config), config.host, config.port + rank)
        yield stats


async def _listen(stack: AsyncExitStack, app: web.Application, host: str, port: int) -> None:
    runner = web.AppRunner(
        app,
        access_log=None,
        # A client that goes away takes its calls to both engines with it.
        handler_cancellation=True,
        auto_decompress=False,
        max_line_size=MAX_HEADER_BYTES,
        max_field_size=MAX_HEADER_BYTES,
        shutdown_timeout=STOP_S,
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    await web.TCPSite(runner, host, port).start()


def _proxying(proxy: Proxy, config: Config) -> web.Application:
    app = web.Application(client_max_size=config.max_body_bytes)
    app.router.add_get("/health", _alive)
    app.router.add_route("*", "/{path:.*}", proxy.handle)
    return app


def _metrics(stats: Stats) -> web.Application:
    async def page(request: web.Request) -> web.Response:
        return web.Response(body=exposition(stats), headers={"Content-Type": CONTENT_TYPE_LATEST})

    app = web.Application()
    app.router.add_get("/metrics", page)
    return app


async def _alive(request: web.Request) -> web.Response:
    """The proxy is there; whether its engine is, `/v1/models` tells."""
    return web.Response()
