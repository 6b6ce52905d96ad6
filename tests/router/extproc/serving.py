"""The real service, and a gRPC client that plays Envoy against it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

import grpc

from router.extproc.pb import ext_proc_pb2 as pb
from router.extproc.pb.ext_proc_pb2_grpc import (
    ExternalProcessorStub,
    add_ExternalProcessorServicer_to_server,
)
from router.extproc.server import ExternalProcessor
from tests.router.directing import Fixture

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
async def service(
    fixture: Fixture | None = None, *, tells_ends: bool = False
) -> AsyncIterator[Service]:
    fixture = fixture or Fixture("a:1")
    processor = ExternalProcessor(fixture.director, CAP, tells_ends=tells_ends)
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
