"""Engines that answer what a test says, and a sidecar between them. IO."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import aiohttp
import msgspec
from aiohttp import web

from pd_sidecar.config import Config
from pd_sidecar.server import running
from pd_sidecar.stats import Stats
from tests.support.ports import free_port

TIMEOUT_S = 20.0

PARAMS = {
    "do_remote_prefill": True,
    "do_remote_decode": False,
    "remote_block_ids": [[1, 11]],
    "remote_engine_id": "e",
    "remote_request_id": "r",
    "remote_host": "127.0.0.1",
    "remote_port": 5600,
}


class Seen(msgspec.Struct):
    """A request that reached an engine."""

    method: str
    target: str
    headers: dict[str, str]
    raw: bytes

    @property
    def body(self) -> Any:
        return msgspec.json.decode(self.raw)


def usage(cached: int) -> dict[str, Any]:
    return {
        "prompt_tokens": 20,
        "completion_tokens": 1,
        "total_tokens": 21,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


Answer = Callable[[web.Request], Awaitable[web.StreamResponse]]


def says(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Answer:
    """Answers with a JSON body."""

    async def answer(request: web.Request) -> web.StreamResponse:
        return web.json_response(body, status=status, headers=headers)

    return answer


def streams(*events: bytes, pause: asyncio.Event | None = None) -> Answer:
    """Answers with server-sent events; after the first it waits for `pause`."""

    async def answer(request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        await response.prepare(request)
        for number, event in enumerate(events):
            await response.write(event)
            if number == 0 and pause is not None:
                await pause.wait()
        return response

    return answer


async def hangs(request: web.Request) -> web.StreamResponse:
    """Never answers."""
    await asyncio.Event().wait()
    raise AssertionError


PREFILLED = says({"usage": usage(16), "kv_transfer_params": PARAMS})
DECODED = says({"choices": [{"text": "hi"}], "usage": usage(20), "kv_transfer_params": None})


class FakeEngine:
    """
    Attributes:
        answers: What the next requests get; the last one for all that follow.
        seen: The requests so far.
        left: Requests whose callers went away.
    """

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers)
        self.seen: list[Seen] = []
        self.left = 0
        self.port = 0

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    async def handle(self, request: web.Request) -> web.StreamResponse:
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Seen(request.method, request.raw_path, headers, await request.read()))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        try:
            return await answer(request)
        except asyncio.CancelledError:
            self.left += 1
            raise

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{path:.*}", self.handle)
        runner = web.AppRunner(
            app, handler_cancellation=True, shutdown_timeout=0.1, auto_decompress=False
        )
        await runner.setup()
        try:
            self.port = free_port()
            await web.TCPSite(runner, "127.0.0.1", self.port).start()
            yield
        finally:
            await runner.cleanup()


class Setup(msgspec.Struct):
    """A sidecar between two engines.

    Attributes:
        prefill: The engine that requests name.
    """

    prefill: FakeEngine
    decode: FakeEngine
    session: aiohttp.ClientSession
    url: str
    stats: Stats

    async def ask(
        self, body: Any, path: str = "/v1/completions", at: str | None = None, **headers: str
    ) -> tuple[aiohttp.ClientResponse, bytes]:
        """The answer; `at` names another prefill engine, empty none."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        prefiller = self.prefill.address if at is None else at
        if prefiller:
            named["x-prefiller-host-port"] = prefiller
        data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        named.setdefault("content-type", "application/json")
        async with self.session.post(self.url + path, data=data, headers=named) as response:
            return response, await response.read()


@asynccontextmanager
async def setup(prefill: FakeEngine, decode: FakeEngine, **config: Any) -> AsyncIterator[Setup]:
    """A sidecar that may call any engine, unless `config` says something else."""
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    async with AsyncExitStack() as stack:
        for engine in (prefill, decode):
            await stack.enter_async_context(engine.serving())
        port = config.pop("port", 0) or free_port()
        given = {"host": "127.0.0.1", "open": True, "engine_port": decode.port, **config}
        stats = await stack.enter_async_context(running(Config(port=port, **given)))
        client = aiohttp.ClientSession(timeout=timeout, auto_decompress=False)
        session = await stack.enter_async_context(client)
        yield Setup(prefill, decode, session, f"http://127.0.0.1:{port}", stats)
