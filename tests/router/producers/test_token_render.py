"""The render client against the simulated engine's render routes."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

import msgspec
import pytest
from aiohttp import web

from router.producers.facts import MediaItem, Tokens
from router.producers.token_render import RenderClient
from router.producers.tokens import Missing
from router.request.types import Kind
from simulator.config import BUNDLED_MODEL_DIR, EngineConfig
from simulator.http import running
from tests.support import make
from tests.support.ports import free_port
from tests.support.processes import until
from tokenizer_sidecar.render import Renderer

CHAT = {"model": "sql", "messages": [{"role": "user", "content": "Say hi, \u4f60\u597d."}]}
Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]


@asynccontextmanager
async def client(url: str, timeout_s: float = 5.0) -> AsyncIterator[RenderClient]:
    made = RenderClient(url, timeout_s, 3 * timeout_s)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(made.run())
        try:
            await until(lambda: made._session is not None)
            yield made
        finally:
            task.cancel()


@asynccontextmanager
async def server(handler: Handler, port: int = 0) -> AsyncIterator[str]:
    runner = web.ServerRunner(web.Server(handler), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    try:
        yield f"http://127.0.0.1:{runner.addresses[0][1]}"
    finally:
        await runner.cleanup()


async def ask(made: RenderClient, kind: Kind = Kind.CHAT, **body: object) -> Tokens | Missing:
    given = body or CHAT
    return await made.tokenize("tiny", make.request(kind=kind, body=msgspec.json.encode(given)))


async def test_ids_are_those_that_an_engine_renders() -> None:
    config = EngineConfig(port=0, kv_events_port=None, replay_port=None)
    async with running(config) as bound, client(f"http://127.0.0.1:{bound.http}/") as made:
        await until(lambda: made.stats.connected)
        renderer = Renderer.load(BUNDLED_MODEL_DIR)
        chat = await ask(made)
        assert isinstance(chat, Tokens)
        assert array("I", chat.ids).tolist() == renderer.chat(CHAT)
        several = await ask(made, Kind.COMPLETION, prompt=["hello world", "import os"])
        assert isinstance(several, Tokens)
        assert array("I", several.ids).tolist() == renderer.completion({"prompt": "hello world"})[0]
        assert await ask(made, prompt="no messages") is Missing.REFUSED


async def test_the_body_is_sent_on_under_the_given_model_in_its_own_order() -> None:
    seen: list[bytes] = []

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        if request.path != "/health":
            seen.append(await request.read())
        return web.json_response({"token_ids": [1]})

    async with server(answer) as url, client(url) as made:
        assert await ask(made, tools=[{"z": 1, "a": 2**60}], model="x", messages=[]) == Tokens(
            b"\1\0\0\0", []
        )
    assert seen == [b'{"tools":[{"z":1,"a":1152921504606846976}],"model":"tiny","messages":[]}']


async def test_media_are_told_where_they_lie() -> None:
    features = {
        "mm_hashes": {"image": ["b", "a"], "audio": ["c"]},
        "mm_placeholders": {
            "image": [{"offset": 40, "length": 8}, {"offset": 4, "length": 30}],
            "audio": [{"offset": 36, "length": 2}],
        },
    }

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"token_ids": [7] * 60, "features": features})

    async with server(answer) as url, client(url) as made:
        tokens = await ask(made)
        assert isinstance(tokens, Tokens)
        assert tokens.media == [
            MediaItem("a", 4, 30, "image"),
            MediaItem("c", 36, 2, "audio"),
            MediaItem("b", 40, 8, "image"),
        ]


@pytest.mark.parametrize(
    ("status", "text", "reason"),
    [
        (400, "{}", Missing.REFUSED),
        (404, "{}", Missing.UNKNOWN_MODEL),
        (429, "{}", Missing.BUSY),
        (503, "{}", Missing.BUSY),
        (500, "{}", Missing.FAILED),
        (200, '{"token_ids": [1], "features": {"mm_hashes": {"image": ["a"]}}}', Missing.FAILED),
        (200, "no json", Missing.FAILED),
        (200, '{"token_ids": [-1]}', Missing.FAILED),
        (200, '{"token_ids": "x"}', Missing.FAILED),
    ],
)
async def test_what_cannot_be_rendered_has_a_reason(
    status: int, text: str, reason: Missing
) -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=status, text=text)

    async with server(answer) as url, client(url) as made:
        assert await ask(made) is reason


async def test_parts_have_a_budget_of_their_own() -> None:
    async def slow(request: web.BaseRequest) -> web.StreamResponse:
        if request.path != "/health":
            await asyncio.sleep(0.6)
        return web.json_response({"token_ids": [1]})

    part = {"type": "text", "text": "hi"}
    async with server(slow) as url, client(url, timeout_s=0.3) as made:
        assert await ask(made) is Missing.TIMEOUT
        told = await ask(made, messages=[{"role": "user", "content": [part]}])
        assert told == Tokens(b"\1\0\0\0", [])


async def test_features_that_are_null_are_none() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        features = {"mm_hashes": None, "mm_placeholders": None}
        return web.json_response({"token_ids": [1], "features": features})

    async with server(answer) as url, client(url) as made:
        assert await ask(made) == Tokens(b"\1\0\0\0", [])


async def test_a_server_that_comes_back_is_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("router.producers.token_render.PROBE_S", 0.05)

    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"token_ids": [1]})

    port = free_port()
    async with client(f"http://127.0.0.1:{port}") as made:
        for connections in (1, 2):
            assert await ask(made) is Missing.UNAVAILABLE
            async with server(answer, port):
                await until(lambda: made.stats.connected)
                assert await ask(made) == Tokens(b"\1\0\0\0", [])
                assert made.stats.connections == connections
            await until(lambda: not made.stats.connected)


async def test_a_server_that_is_away_is_no_error() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        return web.json_response({"token_ids": [1]})

    async with server(answer) as url:
        pass
    async with client(url) as made:
        assert await ask(made) is Missing.UNAVAILABLE
        assert not made.stats.connected
