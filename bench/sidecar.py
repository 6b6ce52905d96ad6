"""The tokenizer sidecar as a process of its own, and a client of its stream. IO."""

from __future__ import annotations

import asyncio
import subprocess
import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Self

import grpc
import msgspec

from bench.cpu import cpu_s
from tokenizer_sidecar.pb.tokenizer_pb2 import (
    CHAT,
    OK,
    ListModelsRequest,
    TokenizeReply,
    TokenizeRequest,
)
from tokenizer_sidecar.pb.tokenizer_pb2_grpc import TokenizerStub
from warmroute.children import python

if TYPE_CHECKING:
    from tokenizer_sidecar.pb.tokenizer_pb2_grpc import TokenizerAsyncStub

_READY_S = 60.0
_IN_FLIGHT = 8
_OPTIONS = [
    ("grpc.max_receive_message_length", 65 * 1024 * 1024),
    ("grpc.max_send_message_length", 65 * 1024 * 1024),
]


class Sidecar(msgspec.Struct, frozen=True):
    """A running sidecar."""

    socket: Path
    pid: int

    def cpu_s(self) -> float:
        """CPU seconds it has used."""
        return cpu_s(self.pid)


@contextmanager
def sidecar(models: Mapping[str, Path], workers: int | None = None) -> Iterator[Sidecar]:
    """A sidecar with these models, which it may still be loading; stopped at the end."""
    with tempfile.TemporaryDirectory() as folder:
        socket = Path(folder) / "s"
        flags = [f"--model={name}={path}" for name, path in models.items()]
        if workers is not None:
            flags.append(f"--workers={workers}")
        command = python("tokenizer", "--socket", str(socket), *flags)
        process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        try:
            yield Sidecar(socket, process.pid)
        finally:
            process.terminate()
            process.wait()


class Exchange:
    """Requests and replies on one stream."""

    def __init__(self, stub: TokenizerAsyncStub) -> None:
        self._call: grpc.aio.StreamStreamCall[TokenizeRequest, TokenizeReply] = stub.Tokenize()
        self._writing = asyncio.Lock()
        self._ids = count()
        self._waiting: dict[int, asyncio.Future[TokenizeReply]] = {}

    @classmethod
    @asynccontextmanager
    async def open(cls, socket: Path) -> AsyncIterator[Self]:
        """A stream, once all models are ready."""
        async with grpc.aio.insecure_channel(f"unix:{socket}", options=_OPTIONS) as channel:
            stub: TokenizerAsyncStub = TokenizerStub(channel)
            async with asyncio.timeout(_READY_S):
                await channel.channel_ready()
                while not await _ready(stub):  # noqa: ASYNC110 - another process has no event
                    await asyncio.sleep(0.05)
            exchange = cls(stub)
            async with asyncio.TaskGroup() as group:
                reading = group.create_task(exchange._read())
                yield exchange
                reading.cancel()

    async def one(self, model: str, body: bytes) -> None:
        """Have a chat tokenized. Raises RuntimeError where that is refused."""
        id_ = next(self._ids)
        reply = self._waiting[id_] = asyncio.get_running_loop().create_future()
        async with self._writing:
            await self._call.write(TokenizeRequest(id=id_, model=model, kind=CHAT, body=body))
        answered = await reply
        if answered.outcome != OK:
            raise RuntimeError(answered.message)

    async def all_of(self, model: str, bodies: Sequence[bytes]) -> None:
        """Have chats tokenized, a few at a time."""
        waiting = iter(bodies)

        async def some() -> None:
            for body in waiting:
                await self.one(model, body)

        async with asyncio.TaskGroup() as group:
            for _ in range(min(_IN_FLIGHT, max(2, len(bodies) // 2))):
                group.create_task(some())

    async def _read(self) -> None:
        async for reply in self._call:
            self._waiting.pop(reply.id).set_result(reply)


async def _ready(stub: TokenizerAsyncStub) -> bool:
    listed = await stub.ListModels(ListModelsRequest())
    return all(model.ready for model in listed.models)
