"""The HTTP port: metrics, health and the questions people ask. IO."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec
from aiohttp import web
from prometheus_client import generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from router.config.duration import seconds
from router.config.errors import ConfigError
from router.errors import RouterError
from router.telemetry.decisions import Decisions
from router.telemetry.loopback import loopback_only
from router.telemetry.metrics import Metrics
from router.telemetry.page.document import document
from router.telemetry.page.overview import Overviews
from router.telemetry.page.stream import EventStreams

Match = Callable[[bytes], Awaitable[Mapping[str, Any]]]
"""Body of ``POST /debug/match`` -> its answer. Raises RouterError."""

Findings = Callable[[float | None], Mapping[str, Any]]
"""What is wrong; the argument is for how long events may stay away, in seconds."""

DEFAULT_LIMIT = 50


def _no_findings(silence_s: float | None) -> Mapping[str, Any]:
    return {"findings": []}


class Pages:
    """What the pages read.

    Attributes:
        match: Who answers; None where no precise prefix producer is configured now.
        doctor: What is wrong, and what mends it.
        open_debug: Clients on other machines may read everything, too.
        ready: Discovery has synced and ext_proc serves.
        degraded: What works less well than it should, in a few words each.
        state: Everything worth knowing, as JSON-able data.
        overviews: What the live page shows.
    """

    def __init__(
        self,
        *,
        metrics: Metrics,
        decisions: Decisions,
        ready: Callable[[], bool],
        degraded: Callable[[], Sequence[str]],
        state: Callable[[], Mapping[str, Any]],
        overviews: Overviews,
        match: Callable[[], Match | None],
        max_body_bytes: int,
        doctor: Findings = _no_findings,
        open_debug: bool = False,
    ) -> None:
        self.metrics = metrics
        self.decisions = decisions
        self.ready = ready
        self.degraded = degraded
        self.state = state
        self.overviews = overviews
        self.match = match
        self.max_body_bytes = max_body_bytes
        self.doctor = doctor
        self.open_debug = open_debug


def application(pages: Pages) -> web.Application:
    """All routes."""
    guards = () if pages.open_debug else (loopback_only,)
    app = web.Application(client_max_size=pages.max_body_bytes, middlewares=guards)
    handlers = _Handlers(pages)
    streams = EventStreams(pages.overviews, pages.decisions)
    app.on_shutdown.append(streams.close)
    app.add_routes(
        [
            web.get("/", handlers.page),
            web.get("/metrics", handlers.metrics),
            web.get("/healthz", handlers.healthz),
            web.get("/readyz", handlers.readyz),
            web.post("/debug/match", handlers.match),
            web.get("/debug/decisions", handlers.decisions),
            web.get("/debug/decisions/{request_id:.+}", handlers.decision),
            web.get("/debug/state", handlers.state),
            # No HEAD: it would wait for an end that does not come.
            web.get("/debug/events", streams.handle, allow_head=False),
            web.get("/debug/doctor", handlers.doctor),
        ]
    )
    return app


class _Handlers:
    def __init__(self, pages: Pages) -> None:
        self._pages = pages
        self._writing = asyncio.Lock()

    async def page(self, request: web.Request) -> web.Response:
        return web.Response(body=document().body, headers=document().headers)

    async def metrics(self, request: web.Request) -> web.Response:
        # In a thread, since it can take seconds, and one at a time: picks go on beside it.
        async with self._writing:
            text = await asyncio.to_thread(generate_latest, self._pages.metrics.published)
        return web.Response(body=text, headers={"content-type": CONTENT_TYPE_LATEST})

    async def healthz(self, request: web.Request) -> web.Response:
        return web.Response(text="ok\n")

    async def readyz(self, request: web.Request) -> web.Response:
        ready = self._pages.ready()
        answer = {"ready": ready, "degraded": list(self._pages.degraded())}
        return _json(answer, status=200 if ready else 503)

    async def match(self, request: web.Request) -> web.Response:
        match = self._pages.match()
        if match is None:
            return _error(404, "no precise-prefix-cache-producer is configured")
        try:
            return _json(await match(await request.read()))
        except RouterError as error:
            return _error(error.status, str(error))

    async def decisions(self, request: web.Request) -> web.Response:
        limit = request.query.get("limit", str(DEFAULT_LIMIT))
        if not re.fullmatch(r"[0-9]{1,6}", limit):
            return _error(400, f"limit must be a number up to 999999, got {limit!r}")
        return _json({"decisions": self._pages.decisions.last(int(limit))})

    async def decision(self, request: web.Request) -> web.Response:
        request_id = request.match_info["request_id"]
        record = self._pages.decisions.get(request_id)
        if record is None:
            return _error(404, f"no decision of request {request_id!r} is kept")
        return _json(record)

    async def doctor(self, request: web.Request) -> web.Response:
        silence = request.query.get("silence")
        try:
            silence_s = None if silence is None else seconds(silence, "silence")
        except ConfigError as error:
            return _error(400, str(error))
        return _json(self._pages.doctor(silence_s))

    async def state(self, request: web.Request) -> web.Response:
        return _json(self._pages.state())


def _json(data: object, status: int = 200) -> web.Response:
    body = msgspec.json.encode(data)
    return web.Response(body=body, status=status, content_type="application/json")


def _error(status: int, message: str) -> web.Response:
    return _json({"error": {"message": message, "code": status}}, status)
