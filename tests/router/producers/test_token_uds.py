"""The client of llm-d's tokenizer service, against the sidecar, which answers that contract."""

from __future__ import annotations

import asyncio
from array import array
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import msgspec
import pytest

from router.producers.facts import MediaItem, Tokens
from router.producers.token_uds import UdsClient
from router.producers.tokens import Missing
from router.request.types import Kind
from simulator.config import BUNDLED_MODEL_DIR
from tests.support import make
from tests.support.ports import free_port
from tests.support.processes import until
from tests.tokenizer_sidecar.disk import chat
from tokenizer_sidecar.pb import tokenization_pb2 as pb
from tokenizer_sidecar.pb.tokenization_pb2_grpc import add_TokenizationServiceServicer_to_server
from tokenizer_sidecar.render import Renderer
from tokenizer_sidecar.server import SidecarConfig, serve

tiny = Renderer.load(BUNDLED_MODEL_DIR)


@asynccontextmanager
async def sidecar(socket: Path, model: Path = BUNDLED_MODEL_DIR) -> AsyncIterator[None]:
    ready, stop = asyncio.Event(), asyncio.Event()
    async with asyncio.TaskGroup() as group:
        config = SidecarConfig(socket=socket, models={"tiny": model})
        group.create_task(serve(config, ready.set, stop))
        await ready.wait()
        try:
            yield
        finally:
            stop.set()


@asynccontextmanager
async def client(
    address: Path | str, model: str = "tiny", **options: Any
) -> AsyncIterator[UdsClient]:
    made = UdsClient(str(address), model, 65 * 1024 * 1024, **options)
    async with asyncio.TaskGroup() as group:
        running = group.create_task(made.run())
        try:
            yield made
        finally:
            running.cancel()


class Played:
    """A service that answers what a test says."""

    def __init__(self) -> None:
        self.chat: Callable[[], pb.RenderChatCompletionResponse] | None = None
        self.code = grpc.StatusCode.INTERNAL
        self.initialized: list[str] = []
        self.message = ""

    async def InitializeTokenizer(  # noqa: N802 - the names are the contract's
        self, request: pb.InitializeTokenizerRequest, context: object
    ) -> pb.InitializeTokenizerResponse:
        self.initialized.append(request.model_name)
        return pb.InitializeTokenizerResponse(success=not self.message, error_message=self.message)

    async def RenderChatCompletion(  # noqa: N802
        self, request: pb.RenderChatCompletionRequest, context: Any
    ) -> pb.RenderChatCompletionResponse:
        if self.chat is None:
            await context.abort(self.code, "no")
            raise AssertionError("abort raises")
        return self.chat()

    async def RenderCompletion(  # noqa: N802
        self, request: pb.RenderCompletionRequest, context: object
    ) -> pb.RenderCompletionResponse:
        await asyncio.sleep(60)
        raise AssertionError("nobody waits that long")

    async def Tokenize(self, request: object, context: Any) -> None:  # noqa: N802
        await context.abort(self.code, "no")

    async def RenderChatTemplate(self, request: object, context: Any) -> None:  # noqa: N802
        await context.abort(self.code, "no")


@asynccontextmanager
async def played(address: str) -> AsyncIterator[Played]:
    service = Played()
    server = grpc.aio.server()
    add_TokenizationServiceServicer_to_server(service, server)  # type: ignore[arg-type]
    server.add_insecure_port(address)
    await server.start()
    try:
        yield service
    finally:
        await server.stop(None)


def ready(made: UdsClient) -> bool:
    return made.stats.connected and not made.stats.not_ready


async def ask(made: UdsClient, body: dict[str, Any]) -> Tokens | Missing:
    kind = Kind.CHAT if "messages" in body else Kind.COMPLETION
    return await made.tokenize("any", make.request(kind=kind, body=msgspec.json.encode(body)))


async def ids(made: UdsClient, body: dict[str, Any]) -> list[int]:
    told = await ask(made, body)
    assert isinstance(told, Tokens), told
    return array("I", told.ids).tolist()


async def test_ids_are_those_of_the_engine(tmp_path: Path) -> None:
    async with sidecar(tmp_path / "s"), client(tmp_path / "s") as made:
        await until(lambda: ready(made))
        body = chat("Hello there", reasoning_effort="none")
        assert await ids(made, body) == tiny.chat(body)
        for special in (True, False):
            text = {"prompt": "hello world", "add_special_tokens": special}
            assert await ids(made, text) == tiny.completion(text)[0]
        assert made.stats.connections == 1


async def test_what_has_no_ids_has_a_reason(tmp_path: Path) -> None:
    async with sidecar(tmp_path / "s"), client(tmp_path / "s") as made:
        await until(lambda: ready(made))
        assert await ask(made, {"prompt": "a", "suffix": "b"}) is Missing.UNSUPPORTED
        assert await ask(made, {"prompt": {}}) is Missing.REFUSED
        assert await ask(made, chat("a", chat_template="x")) is Missing.REFUSED
        assert await ask(made, {"prompt": ""}) is Missing.REFUSED


@pytest.mark.parametrize("tcp", [False, True], ids=["unix", "tcp"])
async def test_the_model_is_initialized_until_the_service_has_it(
    tmp_path: Path, tcp: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("router.producers.token_uds.RETRY_S", 0.01)
    address = f"127.0.0.1:{free_port()}" if tcp else f"unix:{tmp_path / 's'}"
    async with played(address) as service:
        service.message = "being fetched"
        at = address if tcp else tmp_path / "s"
        async with client(at, "/models/m", tcp=tcp) as made:
            await until(lambda: len(service.initialized) > 1)
            assert set(service.initialized) == {"/models/m"}
            assert await ask(made, chat("a")) is Missing.NOT_READY
            assert made.stats.not_ready == ("/models/m: being fetched",)
            service.message = ""
            await until(lambda: ready(made))


async def test_media_are_told_where_they_lie(tmp_path: Path) -> None:
    async with played(f"unix:{tmp_path / 's'}") as service, client(tmp_path / "s") as made:
        features = pb.MultiModalFeatures(
            mm_hashes={"image": pb.StringList(values=["b", "a"])},
            mm_placeholders={
                "image": pb.PlaceholderRangeList(
                    ranges=[
                        pb.PlaceholderRange(offset=9, length=2),
                        pb.PlaceholderRange(offset=1, length=3),
                    ]
                )
            },
        )
        service.chat = lambda: pb.RenderChatCompletionResponse(
            token_ids=[7, 8] * 6, features=features, success=True
        )
        await until(lambda: ready(made))
        told = await ask(made, chat("a"))
        expected = [MediaItem("a", 1, 3, "image"), MediaItem("b", 9, 2, "image")]
        assert told == Tokens(b"\7\0\0\0\10\0\0\0" * 6, expected)
        service.chat = lambda: pb.RenderChatCompletionResponse(
            token_ids=[7, 8], features=features, success=True
        )
        assert await ask(made, chat("a")) is Missing.FAILED


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (grpc.StatusCode.INTERNAL, Missing.FAILED),
        (grpc.StatusCode.UNIMPLEMENTED, Missing.UNSUPPORTED),
        (grpc.StatusCode.INVALID_ARGUMENT, Missing.REFUSED),
        (grpc.StatusCode.RESOURCE_EXHAUSTED, Missing.BUSY),
        (grpc.StatusCode.NOT_FOUND, Missing.UNKNOWN_MODEL),
    ],
    ids=str,
)
async def test_a_failed_call_has_a_reason(
    tmp_path: Path, code: grpc.StatusCode, reason: Missing
) -> None:
    async with played(f"unix:{tmp_path / 's'}") as service, client(tmp_path / "s") as made:
        service.code = code
        await until(lambda: ready(made))
        assert await ask(made, chat("a")) is reason


async def test_a_silent_service_costs_the_budget_and_no_more(tmp_path: Path) -> None:
    async with played(f"unix:{tmp_path / 's'}"), client(tmp_path / "s", timeout_s=0.05) as made:
        await until(lambda: ready(made))
        before = asyncio.get_running_loop().time()
        assert await ask(made, {"prompt": "a"}) is Missing.TIMEOUT
        assert asyncio.get_running_loop().time() - before < 2


async def test_a_service_that_comes_late_goes_and_comes_back_is_used_again(tmp_path: Path) -> None:
    async with client(tmp_path / "s") as made:
        assert await ask(made, chat("a")) is Missing.UNAVAILABLE
        for connections in (1, 2):
            async with sidecar(tmp_path / "s"):
                await until(lambda: ready(made))
                assert made.stats.connections == connections
                assert await ids(made, chat("a")) == tiny.chat(chat("a"))
            await until(lambda: not made.stats.connected)
            assert await ask(made, chat("a")) is Missing.UNAVAILABLE


async def test_a_call_whose_connection_goes_away_ends_and_nothing_else_does(tmp_path: Path) -> None:
    path, later = tmp_path / "s", tmp_path / "later"
    # The first service hangs and goes on living; another takes its place.
    async with played(f"unix:{path}"), sidecar(later), client(path) as made:
        await until(lambda: ready(made))
        async with asyncio.TaskGroup() as group:
            hanging = group.create_task(ask(made, {"prompt": "a"}))
            await asyncio.sleep(0)
            later.rename(path)
            await until(lambda: made.stats.connections == 2)
            assert await hanging is Missing.UNAVAILABLE
        await until(lambda: ready(made))
        assert await ids(made, chat("a")) == tiny.chat(chat("a"))
        path.rename(later)
