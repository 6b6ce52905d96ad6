"""Server-sent events for viewers of the page. IO.

    history     the curves of the last minutes, once
    overview    everything but decisions, once a second
    decisions   those that came or went on

Nobody looking costs nothing. A viewer costs one task, which writes only as fast as it reads; one
that takes nothing for a while is let go, and its browser connects again.
"""

from __future__ import annotations

import asyncio
import time

import msgspec
from aiohttp import web

from router.telemetry.decisions import Decisions
from router.telemetry.page.overview import Overviews
from router.telemetry.page.viewer import Viewer

MAX_VIEWERS = 16

INTERVAL_S = 0.5
"""Between two looks for a viewer."""

WRITE_S = 10.0
"""How long a viewer may take nothing."""

RETRY_MS = 2000
"""When a browser that was let go should come again."""

_HEADERS = {
    "content-type": "text/event-stream",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    # Proxies that hold answers back until they are long would hold all of it back.
    "x-accel-buffering": "no",
}


class EventStreams:
    """Everybody who looks.

    Attributes:
        viewers: How many.
    """

    def __init__(self, overviews: Overviews, decisions: Decisions) -> None:
        self.viewers = 0
        self._overviews = overviews
        self._decisions = decisions
        self._closing = asyncio.Event()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """`GET /debug/events`: runs until the viewer or the router goes."""
        if self.viewers >= MAX_VIEWERS or self._closing.is_set():
            raise web.HTTPServiceUnavailable(headers={"retry-after": "10"})
        self.viewers += 1
        try:
            response = web.StreamResponse(headers=_HEADERS)
            await response.prepare(request)
            await self._follow(response)
        except (ConnectionResetError, TimeoutError):
            pass  # the viewer has gone, or does not read
        finally:
            self.viewers -= 1
        return response

    async def close(self, app: web.Application) -> None:
        """Let everybody go: an open stream would keep the server from ending."""
        self._closing.set()

    async def _follow(self, response: web.StreamResponse) -> None:
        await _write(response, _event("history", self._overviews.points()))
        viewer, sent_at = Viewer(), 0.0
        while not self._closing.is_set():
            overview = self._overviews.at(time.time())
            if overview.at != sent_at:
                sent_at = overview.at
                await _write(response, _event("overview", overview))
            news = viewer.news(self._decisions)
            if news:
                await _write(response, _event("decisions", news))
            await self._pause()

    async def _pause(self) -> None:
        try:
            async with asyncio.timeout(INTERVAL_S):
                await self._closing.wait()
        except TimeoutError:
            return


async def _write(response: web.StreamResponse, data: bytes) -> None:
    """Raises TimeoutError where the viewer takes nothing."""
    async with asyncio.timeout(WRITE_S):
        await response.write(data)


def _event(name: str, data: object) -> bytes:
    # JSON holds no line break, so it is one line of the event.
    return b"event: %b\nretry: %d\ndata: %b\n\n" % (
        name.encode(),
        RETRY_MS,
        msgspec.json.encode(data),
    )
