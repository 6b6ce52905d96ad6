"""A gRPC client plays Envoy against the real service."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc
import pytest

from router.extproc.pb import ext_proc_pb2 as pb
from router.extproc.pb.ext_proc_pb2_grpc import (
    ExternalProcessorStub,
    add_ExternalProcessorServicer_to_server,
)
from router.extproc.server import ExternalProcessor
from tests.router.test_director import Amending, Fixture
from tests.support import envoy_messages as envoy
from tests.support.processes import until

if TYPE_CHECKING:
    from router.extproc.pb.ext_proc_pb2_grpc import ExternalProcessorAsyncStub

CAP = 1_000_000
PROMPT = '{"model": "m", "prompt": "gr\N{LATIN SMALL LETTER U WITH DIAERESIS}n"}'.encode()


class Service:
    """The service on a port of its own."""

    def __init__(self, fixture: Fixture, stub: ExternalProcessorAsyncStub) -> None:
        self.fixture = fixture
        self._stub = stub
        self.processor: ExternalProcessor

    async def play(self, *messages: pb.ProcessingRequest) -> list[pb.ProcessingResponse]:
        """All of Envoy's messages at once, then the end of the stream."""
        return [answer async for answer in self._stub.Process(_each(messages))]

    def open(self) -> grpc.aio.StreamStreamCall[pb.ProcessingRequest, pb.ProcessingResponse]:
        """A stream that a test writes and reads itself."""
        return self._stub.Process()


async def _each(messages: Sequence[pb.ProcessingRequest]) -> AsyncIterator[pb.ProcessingRequest]:
    for message in messages:
        yield message


@asynccontextmanager
async def service(fixture: Fixture | None = None) -> AsyncIterator[Service]:
    fixture = fixture or Fixture("a:1")
    processor = ExternalProcessor(fixture.director, CAP)
    server = grpc.aio.server(options=[("grpc.max_receive_message_length", 2 * CAP)])
    add_ExternalProcessorServicer_to_server(processor, server)  # type: ignore[arg-type]
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        made = Service(fixture, ExternalProcessorStub(channel))
        made.processor = processor
        yield made
    await server.stop(None)


def destination(answer: pb.ProcessingResponse) -> str:
    """Where an answer sends the request."""
    part = answer.request_body if answer.HasField("request_body") else answer.request_headers
    headers = part.response.header_mutation.set_headers
    return next(
        h.header.raw_value.decode()
        for h in headers
        if h.header.key == "x-gateway-destination-endpoint"
    )


async def test_a_buffered_request_is_answered_from_headers_to_the_end() -> None:
    async with service() as envoy_side:
        answers = await envoy_side.play(
            envoy.request_headers(),
            envoy.request_body(PROMPT, end=True),
            envoy.response_headers(200, content_type="application/json"),
            envoy.response_body(b'{"usage":{"prompt_tokens":3}}', end=True),
            pb.ProcessingRequest(response_trailers=pb.HttpTrailers()),
        )
        kinds = [answer.WhichOneof("response") for answer in answers]
        assert kinds == [
            "request_headers",
            "request_body",
            "response_headers",
            "response_body",
            "response_trailers",
        ]
        assert destination(answers[1]) == "a:1"
        assert answers[2].mode_override.response_body_mode == pb.STREAMED
        (record,) = envoy_side.fixture.notes.ended_
        assert record.usage is not None
        assert record.usage.prompt_tokens == 3


FULL_DUPLEX = envoy.request_headers(mode=pb.FULL_DUPLEX_STREAMED)
LAST = envoy.request_body(PROMPT[20:], end=True)


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(
            [envoy.request_body(PROMPT[:20], end=False), LAST, LAST], id="last-chunk-twice"
        ),
        pytest.param(
            [envoy.request_body(PROMPT, end=False), envoy.request_body(b"", end=True)],
            id="empty-last-chunk",
        ),
        pytest.param(
            [
                envoy.request_body(PROMPT[:29], end=False),
                envoy.request_body(PROMPT[29:], end=True),
            ],
            id="cut-inside-a-character",
        ),
        pytest.param(
            [
                envoy.request_body(PROMPT[i : i + 1], end=i + 1 == len(PROMPT))
                for i in range(len(PROMPT))
            ],
            id="one-byte-each",
        ),
    ],
)
async def test_full_duplex_bodies_are_decided_once_and_sent_back_once(
    messages: list[pb.ProcessingRequest],
) -> None:
    async with service() as envoy_side:
        first, *rest = await envoy_side.play(FULL_DUPLEX, *messages)
        assert destination(first) == "a:1"
        pieces = [a.request_body.response.body_mutation.streamed_response for a in rest]
        assert b"".join(piece.body for piece in pieces) == PROMPT
        assert [piece.end_of_stream for piece in pieces] == [True]
        assert len(envoy_side.fixture.notes.routed_) == 1


async def test_request_trailers_are_answered() -> None:
    async with service() as envoy_side:
        *_, body, trailers = await envoy_side.play(
            FULL_DUPLEX, envoy.request_body(PROMPT, end=False), envoy.request_trailers()
        )
        assert not body.request_body.response.body_mutation.streamed_response.end_of_stream
        assert trailers.HasField("request_trailers")


async def test_a_bad_request_is_refused_and_ends_only_its_own_stream() -> None:
    async with service() as envoy_side:
        other = envoy_side.open()
        await other.write(envoy.request_headers())
        await other.read()
        *_, refusal = await envoy_side.play(
            envoy.request_headers(), envoy.request_body(b"{", end=True)
        )
        assert refusal.immediate_response.status.code == 400
        await other.write(envoy.request_body(PROMPT, end=True))
        answer = await other.read()
        assert isinstance(answer, pb.ProcessingResponse)
        assert destination(answer) == "a:1"
        other.cancel()


async def test_a_body_above_the_cap_is_refused() -> None:
    async with service() as envoy_side:
        (refusal,) = await envoy_side.play(
            FULL_DUPLEX,
            envoy.request_body(b"x" * CAP, end=False),
            envoy.request_body(b"x", end=True),
        )
        assert refusal.immediate_response.status.code == 413


async def test_a_413_of_envoys_own_is_answered() -> None:
    async with service() as envoy_side:
        answers = await envoy_side.play(envoy.request_headers(), envoy.response_headers(413))
        assert [a.WhichOneof("response") for a in answers] == [
            "request_headers",
            "response_headers",
        ]


async def test_a_fault_of_ours_is_a_500_and_no_other_stream_notices() -> None:
    fixture = Fixture("a:1")
    async with service(fixture) as envoy_side:
        handler = fixture.director._handler
        fixture.director._handler = None  # type: ignore[assignment]
        *_, refusal = await envoy_side.play(
            envoy.request_headers(), envoy.request_body(PROMPT, end=True)
        )
        assert refusal.immediate_response.status.code == 500
        assert b"NoneType" not in refusal.immediate_response.body
        fixture.director._handler = handler
        *_, answer = await envoy_side.play(
            envoy.request_headers(), envoy.request_body(PROMPT, end=True)
        )
        assert destination(answer) == "a:1"
        assert envoy_side.processor.stats.failed == 1


@pytest.mark.parametrize("how", ["cancelled", "half-closed"])
async def test_however_a_stream_ends_its_request_is_given_back(how: str) -> None:
    fixture = Fixture("a:1")
    async with service(fixture) as envoy_side:
        stream = envoy_side.open()
        await stream.write(envoy.request_headers())
        await stream.read()
        await stream.write(envoy.request_body(PROMPT, end=True))
        await stream.read()
        assert fixture.load.requests == {"a:1": 1}
        if how == "cancelled":
            stream.cancel()
        else:
            await stream.done_writing()
        await until(lambda: fixture.load.requests == {})
        assert fixture.known.told == ["decided a:1", "ended"]
        await until(lambda: envoy_side.processor.stats.open == 0)


async def test_many_open_streams_do_not_hold_up_a_new_one() -> None:
    async with service() as envoy_side:
        held = []
        for _ in range(300):
            stream = envoy_side.open()
            await stream.write(envoy.request_headers())
            held.append(stream)
        await asyncio.gather(*(stream.read() for stream in held))
        async with asyncio.timeout(5):
            *_, answer = await envoy_side.play(
                envoy.request_headers(), envoy.request_body(PROMPT, end=True)
            )
        assert destination(answer) == "a:1"
        for stream in held:
            stream.cancel()


@pytest.mark.parametrize(("status", "told"), [(200, {"x-client": b"a:1"}), (503, {})])
async def test_the_client_is_told_what_is_added_where_the_engine_served_it(
    status: int, told: dict[str, bytes]
) -> None:
    async with service(Fixture("a:1", followers=[Amending()])) as envoy_side:
        answers = await envoy_side.play(
            envoy.request_headers(),
            envoy.request_body(PROMPT, end=True),
            envoy.response_headers(status),
        )
        set_headers = answers[2].response_headers.response.header_mutation.set_headers
        assert {h.header.key: h.header.raw_value for h in set_headers} == told
