"""An engine that tells what it got, or streams at the pace a test sets. IO."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec
import zmq
from aiohttp import web

EVENTS_PORT = 5557

MAX_BYTES = 128 * 1024 * 1024

START_BYTES = 1000
"""So much of a body is told as it came."""

METRICS = """\
vllm:num_requests_waiting{engine="0",model_name="tiny"} 0.0
vllm:num_requests_running{engine="0",model_name="tiny"} 0.0
vllm:kv_cache_usage_perc{engine="0",model_name="tiny"} 0.0
process_start_time_seconds 1.7e+09
"""


class EchoEngine:
    """
    Attributes:
        requests: Requests other than scrapes, newest last.
        chunks: What a streamed answer sends; the stream ends at None.
        answers: Status, content type and body of answers that a test wants, next first.
    """

    def __init__(self) -> None:
        self.requests: list[web.BaseRequest] = []
        self.chunks: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.answers: deque[tuple[int, str, bytes]] = deque()
        self.aborted = 0

    async def answer(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/metrics":
            return web.Response(text=METRICS)
        if request.path == "/v1/models":
            return web.json_response({"data": [{"id": "tiny", "root": "tiny", "parent": None}]})
        self.requests.append(request)
        match request.headers.get("x-test"):
            case "stream":
                return await self._stream(request)
            case "model":
                model = msgspec.json.decode(await request.read())["model"]
                return web.json_response({"model": model})
            case "answer":
                status, kind, body = self.answers.popleft()
                headers = {"content-type": kind, "x-engine": "yes"}
                return web.Response(status=status, body=body, headers=headers)
            case "reset":
                return await self._reset(request)
            case _:
                return await self._echo(request)

    async def _echo(self, request: web.BaseRequest) -> web.StreamResponse:
        digest = hashlib.sha256()
        size, start = 0, b""
        async for chunk in request.content.iter_any():
            digest.update(chunk)
            size += len(chunk)
            start += chunk[: START_BYTES - len(start)]
        headers = [[name, value] for name, value in request.headers.items()]
        told = {
            "sha256": digest.hexdigest(),
            "size": size,
            "start": start.decode("latin-1"),
            "headers": headers,
        }
        return web.json_response(told)

    async def _reset(self, request: web.BaseRequest) -> web.StreamResponse:
        """Begin to answer, and break the connection once there is a chunk to send."""
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b"data: 1\n\n")
        await self.chunks.get()
        assert request.transport is not None
        request.transport.abort()
        return response

    async def _stream(self, request: web.BaseRequest) -> web.StreamResponse:
        kind = request.headers.get("x-test-type", "text/event-stream")
        response = web.StreamResponse(headers={"content-type": kind})
        try:
            await response.prepare(request)
            while (chunk := await self.chunks.get()) is not None:
                await response.write(chunk)
            await response.write_eof()
        except (asyncio.CancelledError, ConnectionError):
            self.aborted += 1
            raise
        return response


@asynccontextmanager
async def echo_engine(host: str, port: int = 8000) -> AsyncIterator[EchoEngine]:
    """Serve until the block ends; of events there are none."""
    engine = EchoEngine()
    runner = web.ServerRunner(
        web.Server(engine.answer, handler_cancellation=True, auto_decompress=False),
        shutdown_timeout=1.0,
    )
    await runner.setup()
    try:
        await web.TCPSite(runner, host, port).start()
        with zmq.Context() as context, context.socket(zmq.PUB) as events:
            events.bind(f"tcp://{host}:{EVENTS_PORT}")
            yield engine
    finally:
        await runner.cleanup()
