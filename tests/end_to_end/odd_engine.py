"""An engine that answers and publishes whatever a test lets it. IO."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import zmq
import zmq.asyncio
from aiohttp import web

from tests.support.echo_engine import METRICS

PORT = 8000
EVENTS_PORT = 5557
STARTED = "1.7e+09"
"""When the process began, as the metrics of an `EchoEngine` say."""


class OddEngine:
    """
    Attributes:
        address: Where it answers.
        events: Where it publishes.
        metrics: Its metrics page.
    """

    def __init__(self, host: str, context: zmq.asyncio.Context) -> None:
        self.address = f"{host}:{PORT}"
        self.events = f"tcp://{host}:{EVENTS_PORT}"
        self.metrics = METRICS
        self._host = host
        # Unlike a PUB socket it tells who listens, so that the first message is not lost.
        self._publisher = context.socket(zmq.XPUB)
        self._publisher.setsockopt(zmq.LINGER, 0)
        self._publisher.bind(self.events)

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
        """Its pages can be read."""
        application = web.Application()
        application.add_routes(
            [web.get("/metrics", self._metrics), web.get("/v1/models", self._models)]
        )
        runner = web.AppRunner(application)
        await runner.setup()
        try:
            await web.TCPSite(runner, self._host, PORT).start()
            yield
        finally:
            await runner.cleanup()

    async def listened_to(self) -> None:
        """Wait until somebody subscribes to all topics."""
        while await self._publisher.recv() != b"\x01":
            pass

    async def say(self, seq: int, *events: Any, topic: str | None = None) -> None:
        """Publish a batch of events."""
        payload = msgspec.msgpack.encode([float(seq), events, 0])
        await self.send(seq, payload, topic=topic)

    async def send(self, seq: int, payload: bytes, *more: bytes, topic: str | None = None) -> None:
        """Publish a message, whatever is in it."""
        named = f"kv@{self.address}@tiny" if topic is None else topic
        frames: Sequence[bytes] = (named.encode(), seq.to_bytes(8, "big"), payload, *more)
        await self._publisher.send_multipart(frames)

    def begin_anew(self) -> None:
        """Be another process from now on."""
        self.metrics = self.metrics.replace(STARTED, f"{float(STARTED) + 60}")

    def close(self) -> None:
        self._publisher.close()

    async def _metrics(self, request: web.Request) -> web.Response:
        return web.Response(text=self.metrics)

    async def _models(self, request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "tiny", "root": "tiny", "parent": None}]})
