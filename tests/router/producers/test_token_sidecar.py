"""The client of the sidecar, against the real sidecar over a real Unix socket."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import msgspec
import pytest

from router.producers.facts import Tokens
from router.producers.token_sidecar import SidecarClient
from router.producers.tokens import Missing
from simulator.config import BUNDLED_MODEL_DIR
from tests.support import make
from tests.support.processes import until
from tokenizer_sidecar.pb import tokenizer_pb2 as pb
from tokenizer_sidecar.pb.tokenizer_pb2_grpc import add_TokenizerServicer_to_server
from tokenizer_sidecar.render import Renderer
from tokenizer_sidecar.server import SidecarConfig, serve

BODY = msgspec.json.encode({"model": "tiny", "prompt": "Hello there, how are you today?"})


@asynccontextmanager
async def sidecar(socket: Path) -> AsyncIterator[None]:
    ready, stop = asyncio.Event(), asyncio.Event()
    config = SidecarConfig(socket=socket, models={"tiny": BUNDLED_MODEL_DIR})
    async with asyncio.TaskGroup() as group:
        group.create_task(serve(config, ready.set, stop))
        await ready.wait()
        try:
            yield
        finally:
            stop.set()


@asynccontextmanager
async def client(socket: Path, timeout_s: float = 5.0) -> AsyncIterator[SidecarClient]:
    made = SidecarClient(str(socket), timeout_s, 65 * 1024 * 1024)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.run())
        try:
            yield made
        finally:
            running.cancel()


async def tokenized(
    made: SidecarClient, model: str = "tiny", body: bytes = BODY
) -> Tokens | Missing:
    return await made.tokenize(model, make.request(body=body))


async def test_ids_come_back_packed(tmp_path: Path) -> None:
    socket = tmp_path / "t.sock"
    async with sidecar(socket), client(socket) as made:
        await until(lambda: made.stats.connected)
        ids = await until(lambda: _ids(made))
        expected = Renderer.load(BUNDLED_MODEL_DIR).completion(msgspec.json.decode(BODY))[0]
        assert array("I", ids.ids).tolist() == expected


async def _ids(made: SidecarClient) -> Tokens | None:
    answer = await tokenized(made)
    return None if isinstance(answer, Missing) else answer


async def test_many_requests_share_the_stream(tmp_path: Path) -> None:
    socket = tmp_path / "t.sock"
    async with sidecar(socket), client(socket) as made:
        await until(lambda: _ids(made))
        bodies = [msgspec.json.encode({"prompt": f"number {n} " * n}) for n in range(1, 100)]
        answers = await asyncio.gather(*(tokenized(made, body=body) for body in bodies))
        alone = [await tokenized(made, body=body) for body in bodies]
        assert answers == alone
        assert made.stats.connections == 1


@pytest.mark.parametrize(
    ("model", "body", "reason"),
    [
        ("nobody", BODY, Missing.UNKNOWN_MODEL),
        ("tiny", b'{"prompt": null}', Missing.REFUSED),
        ("tiny", b'{"prompt_embeds": "x"}', Missing.UNSUPPORTED),
    ],
)
async def test_what_cannot_be_tokenized_has_a_reason(
    tmp_path: Path, model: str, body: bytes, reason: Missing
) -> None:
    socket = tmp_path / "t.sock"
    async with sidecar(socket), client(socket) as made:
        await until(lambda: _ids(made))
        assert await tokenized(made, model, body) is reason


async def test_a_sidecar_that_comes_late_dies_and_comes_back_is_used_again(tmp_path: Path) -> None:
    socket = tmp_path / "t.sock"
    async with client(socket) as made:
        assert await tokenized(made) is Missing.UNAVAILABLE
        for connections in (1, 2):
            async with sidecar(socket):
                await until(lambda: _ids(made))
                assert made.stats.connections == connections
            await until(lambda: not made.stats.connected)
            assert await tokenized(made) is Missing.UNAVAILABLE


class Silent:
    """A sidecar that reads everything and never answers."""

    async def Tokenize(  # noqa: N802 - the name is the contract's
        self, requests: AsyncIterator[pb.TokenizeRequest], context: object
    ) -> None:
        async for _ in requests:
            pass

    async def ListModels(self, request: object, context: object) -> pb.ListModelsReply:  # noqa: N802
        return pb.ListModelsReply()


async def test_a_silent_sidecar_costs_the_budget_and_no_more(tmp_path: Path) -> None:
    socket = tmp_path / "t.sock"
    server = grpc.aio.server()
    add_TokenizerServicer_to_server(Silent(), server)  # type: ignore[arg-type]
    server.add_insecure_port(f"unix:{socket}")
    await server.start()
    try:
        async with client(socket, timeout_s=0.05) as made:
            await until(lambda: made.stats.connected)
            loop = asyncio.get_running_loop()
            before = loop.time()
            assert await tokenized(made) is Missing.TIMEOUT
            assert loop.time() - before < 2
            assert made._waiting == {}
    finally:
        await server.stop(None)
