"""The client's end of the sidecar's socket, for tests."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING, cast

import grpc
import msgspec

from tokenizer_sidecar.pb.tokenizer_pb2 import (
    CHAT,
    COMPLETION,
    Kind,
    TokenizeReply,
    TokenizeRequest,
)
from tokenizer_sidecar.pb.tokenizer_pb2_grpc import (
    TokenizerServicer,
    TokenizerStub,
    add_TokenizerServicer_to_server,
)
from tokenizer_sidecar.service import Service

if TYPE_CHECKING:
    from tokenizer_sidecar.pb.tokenizer_pb2_grpc import TokenizerAsyncStub

Stream = grpc.aio.StreamStreamCall[TokenizeRequest, TokenizeReply]

_OPTIONS = [
    ("grpc.max_receive_message_length", 65 * 1024 * 1024),
    ("grpc.max_send_message_length", 65 * 1024 * 1024),
]


async def until(condition: Callable[[], bool], within_s: float = 20.0) -> None:
    """Return as soon as the condition holds."""
    for _ in range(int(within_s / 0.005)):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("the condition never held")


@asynccontextmanager
async def connected(path: Path) -> AsyncIterator[TokenizerAsyncStub]:
    """A stub for the sidecar that listens there."""
    async with grpc.aio.insecure_channel(f"unix:{path}", options=_OPTIONS) as channel:
        yield TokenizerStub(channel)


@asynccontextmanager
async def served(service: Service, path: Path) -> AsyncIterator[TokenizerAsyncStub]:
    """A stub for the service, served for as long as this is open."""
    server = grpc.aio.server(options=_OPTIONS)
    add_TokenizerServicer_to_server(cast(TokenizerServicer, service), server)
    server.add_insecure_port(f"unix:{path}")
    await server.start()
    try:
        async with connected(path) as stub:
            yield stub
    finally:
        await server.stop(None)
        service.close()


def request(
    id_: int,
    body: object = None,
    *,
    raw: bytes | None = None,
    model: str = "tiny",
    kind: Kind.ValueType | None = None,
    timeout_ms: int = 0,
) -> TokenizeRequest:
    """A request for a body; its kind follows from the body."""
    content = {"prompt": "a"} if body is None else body
    if kind is None:
        kind = CHAT if isinstance(content, dict) and "messages" in content else COMPLETION
    encoded = msgspec.json.encode(content) if raw is None else raw
    return TokenizeRequest(id=id_, model=model, kind=kind, body=encoded, timeout_ms=timeout_ms)


async def reply(stream: Stream) -> TokenizeReply:
    """The stream's next reply."""
    async with asyncio.timeout(20):
        received = await stream.read()
    assert isinstance(received, TokenizeReply), "the stream has ended"
    return received


async def ask(stream: Stream, requests: Iterable[TokenizeRequest]) -> dict[int, TokenizeReply]:
    """Send all of them, then collect the replies by id."""
    count = 0
    for message in requests:
        await stream.write(message)
        count += 1
    replies = [await reply(stream) for _ in range(count)]
    found = {answered.id: answered for answered in replies}
    assert len(found) == count
    return found


def ids(answered: TokenizeReply) -> list[int]:
    """The reply's token ids."""
    return list(struct.unpack(f"<{len(answered.token_ids) // 4}I", answered.token_ids))
