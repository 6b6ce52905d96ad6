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
from structlog.testing import capture_logs

from router.producers.facts import Tokens
from router.producers.token_sidecar import SidecarClient
from router.producers.tokens import Missing
from router.request.types import Kind
from simulator.config import BUNDLED_MODEL_DIR
from tests.support import make
from tests.support.processes import until
from tests.tokenizer_sidecar.disk import write_model
from tokenizer_sidecar.pb import tokenizer_pb2 as pb
from tokenizer_sidecar.pb.tokenizer_pb2_grpc import add_TokenizerServicer_to_server
from tokenizer_sidecar.render import Renderer
from tokenizer_sidecar.server import SidecarConfig, serve

Context = grpc.aio.ServicerContext[pb.TokenizeRequest, pb.TokenizeReply]

BODY = msgspec.json.encode({"model": "tiny", "prompt": "Hello there, how are you today?"})


@asynccontextmanager
async def sidecar(socket: Path, model: Path = BUNDLED_MODEL_DIR) -> AsyncIterator[None]:
    ready, stop = asyncio.Event(), asyncio.Event()
    config = SidecarConfig(socket=socket, models={"tiny": model})
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


async def test_a_chat_with_media_is_known_up_to_them(tmp_path: Path) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,"}}
    messages = [{"role": "system", "content": "s"}, {"role": "user", "content": [image]}]
    body = msgspec.json.encode({"messages": messages})
    async with sidecar(tmp_path / "s"), client(tmp_path / "s") as made:
        await until(lambda: _ids(made))
        told = await made.tokenize("tiny", make.request(kind=Kind.CHAT, body=body))
    assert isinstance(told, Tokens)
    assert told.partial
    assert told.count > 3


async def test_without_a_chat_template_only_completions_have_ids(tmp_path: Path) -> None:
    model = write_model(tmp_path / "model", template=None)
    chat = b'{"messages": [{"role": "user", "content": "a"}]}'
    async with sidecar(tmp_path / "s", model), client(tmp_path / "s") as made:
        ids = await until(lambda: _ids(made))
        assert ids.count > len("Hello there")
        asked = make.request(kind=Kind.CHAT, body=chat)
        assert await made.tokenize("tiny", asked) is Missing.UNSUPPORTED


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
    """A sidecar that reads everything and computes nothing: it says nothing, or one outcome."""

    def __init__(self, outcome: pb.Outcome.ValueType | None = None) -> None:
        self.read: list[pb.TokenizeRequest] = []
        self._outcome = outcome

    async def Tokenize(  # noqa: N802 - the name is the contract's
        self, requests: AsyncIterator[pb.TokenizeRequest], context: Context
    ) -> None:
        async for request in requests:
            self.read.append(request)
            if self._outcome is not None:
                await context.write(pb.TokenizeReply(id=request.id, outcome=self._outcome))

    async def ListModels(self, request: object, context: object) -> pb.ListModelsReply:  # noqa: N802
        return pb.ListModelsReply()


async def listening(path: Path, servicer: Silent) -> grpc.aio.Server:
    server = grpc.aio.server()
    add_TokenizerServicer_to_server(servicer, server)  # type: ignore[arg-type]
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    return server


async def test_a_silent_sidecar_costs_the_budget_and_no_more(tmp_path: Path) -> None:
    socket = tmp_path / "t.sock"
    silent = Silent()
    server = await listening(socket, silent)
    try:
        async with client(socket, timeout_s=0.05) as made:
            await until(lambda: made.stats.connected)
            loop = asyncio.get_running_loop()
            before = loop.time()
            assert await tokenized(made) is Missing.TIMEOUT
            assert loop.time() - before < 2
            await until(lambda: len(silent.read) == 2)
    finally:
        await server.stop(None)
    asked, withdrawn = silent.read
    assert (asked.body, withdrawn.id, withdrawn.cancel) == (BODY, asked.id, True)
    assert 0 < asked.timeout_ms <= 50


async def test_a_sidecar_that_breaks_off_is_told_of_in_one_line(tmp_path: Path) -> None:
    server = await listening(tmp_path / "t.sock", Silent())
    with capture_logs() as logs:
        async with client(tmp_path / "t.sock") as made:
            await until(lambda: made.stats.connected)
            await server.stop(None)
            await until(lambda: not made.stats.connected)
    (lost,) = (entry for entry in logs if entry["event"] == "tokenizer.lost")
    assert lost["reason"].startswith("UNAVAILABLE: ")
    assert "\n" not in lost["reason"]


@pytest.mark.parametrize(
    ("outcome", "reason"),
    [
        (pb.EXPIRED, Missing.EXPIRED),
        (pb.BUSY, Missing.BUSY),
        (pb.NOT_READY, Missing.NOT_READY),
        (pb.FAILED, Missing.FAILED),
        (99, Missing.FAILED),
    ],
)
async def test_every_outcome_has_a_reason_of_its_own(
    tmp_path: Path, outcome: pb.Outcome.ValueType, reason: Missing
) -> None:
    path = tmp_path / "t.sock"
    server = await listening(path, Silent(outcome))
    try:
        async with client(path) as made:
            await until(lambda: made.stats.connected)
            assert await tokenized(made) is reason
    finally:
        await server.stop(None)


class Older(Silent):
    """A service of that name that does not have the stream yet."""

    async def Tokenize(  # noqa: N802
        self, requests: AsyncIterator[pb.TokenizeRequest], context: Context
    ) -> None:
        await context.abort(grpc.StatusCode.UNIMPLEMENTED, "no such method")


async def test_a_sidecar_without_the_stream_is_not_asked_all_the_time(tmp_path: Path) -> None:
    server = await listening(tmp_path / "s", Older())
    try:
        async with client(tmp_path / "s") as made:
            await until(lambda: made.stats.connections == 3)
            assert await tokenized(made) is Missing.UNAVAILABLE
            await asyncio.sleep(0.5)
            assert made.stats.connections == 3
    finally:
        await server.stop(None)


async def test_a_socket_put_in_the_place_of_another_is_dialled(tmp_path: Path) -> None:
    path, later = tmp_path / "t.sock", tmp_path / "later.sock"
    # The first one goes on living, and says nothing.
    first, second = await listening(path, Silent()), await listening(later, Silent(pb.BUSY))
    try:
        async with client(path, timeout_s=0.05) as made:
            await until(lambda: made.stats.connected)
            assert await tokenized(made) is Missing.TIMEOUT
            later.rename(path)
            await until(lambda: made.stats.connections == 2)
            assert await tokenized(made) is Missing.BUSY
    finally:
        await first.stop(None)
        await second.stop(None)
