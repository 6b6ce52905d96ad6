"""The client: requests over connections that stay open, as fast as possible or at a rate. IO.

It runs in a process of its own. At a rate, requests come at random moments, as from many clients
that know nothing of each other, and a latency is counted from the moment the request was due.
"""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from multiprocessing.connection import Connection
from typing import cast

import msgspec
import uvloop

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_OK = b"HTTP/1.1 200 "
_LAST_CHUNK = b"\r\n0\r\n\r\n"


class LoadError(Exception):
    """A request was not answered with 200, or not in time."""


class Load(msgspec.Struct, frozen=True, kw_only=True):
    """What is sent.

    Attributes:
        bodies: One per request, in order.
        connections: Requests under way at once, at most.
        rate: Requests per second; None: the next one as soon as a connection is free.
        headers: Besides those that HTTP wants.
        timeout_s: For all of it.
    """

    host: str
    port: int
    path: str
    bodies: Sequence[bytes]
    connections: int
    rate: float | None = None
    headers: Mapping[str, str] = {}
    timeout_s: float = 120.0


class Outcome(msgspec.Struct, frozen=True):
    """How it went.

    Attributes:
        seconds: From the first request to the end of the last answer.
        latencies_s: Sorted.
    """

    seconds: float
    latencies_s: Sequence[float]

    @property
    def rate(self) -> float:
        """Requests per second."""
        return len(self.latencies_s) / self.seconds

    def quantile_ms(self, share: float) -> float:
        """The latency that so many of the requests kept."""
        return self.latencies_s[int(share * (len(self.latencies_s) - 1))] * 1e3


def run(load: Load) -> Outcome:
    """Send it all and wait for the answers. Raises LoadError."""
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    client = context.Process(target=_client, args=(theirs,), daemon=True)
    client.start()
    theirs.close()
    try:
        ours.send(load)
        outcome: Outcome | str = ours.recv()
    finally:
        ours.close()
        client.join()
    if isinstance(outcome, str):
        raise LoadError(outcome)
    return outcome


def _client(pipe: Connection) -> None:
    try:
        pipe.send(uvloop.run(_run(pipe.recv())))
    except* (LoadError, OSError, TimeoutError) as group:
        pipe.send(_first(group))


def _first(group: BaseExceptionGroup[Exception]) -> str:
    """The first error of a group, as text."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return f"{type(error).__name__}: {error}"


async def _run(load: Load) -> Outcome:
    latencies: list[float] = []
    async with asyncio.timeout(load.timeout_s):
        connections = [await _connect(load.host, load.port) for _ in range(load.connections)]
        began = time.perf_counter()
        requests = iter(zip(_messages(load), _due(load, began), strict=False))
        async with asyncio.TaskGroup() as group:
            for connection in connections:
                group.create_task(_work(connection, requests, latencies))
        seconds = time.perf_counter() - began
    for connection in connections:
        connection.close()
    return Outcome(seconds, sorted(latencies))


def _messages(load: Load) -> Iterator[bytes]:
    extra = "".join(f"{name}: {value}\r\n" for name, value in load.headers.items())
    for body in load.bodies:
        head = (
            f"POST {load.path} HTTP/1.1\r\nhost: bench\r\ncontent-type: application/json\r\n"
            f"{extra}content-length: {len(body)}\r\n\r\n"
        )
        yield head.encode() + body


def _due(load: Load, began: float) -> Iterator[float | None]:
    order, due = random.Random(load.rate), began
    while True:
        if load.rate is None:
            yield None
        else:
            yield (due := due + order.expovariate(load.rate))


async def _work(
    connection: _Connection,
    requests: Iterator[tuple[bytes, float | None]],
    latencies: list[float],
) -> None:
    for message, due in requests:
        if due is not None:
            await asyncio.sleep(due - time.perf_counter())
        started = time.perf_counter() if due is None else due
        await connection.exchange(message)
        latencies.append(time.perf_counter() - started)


async def _connect(host: str, port: int) -> _Connection:
    loop = asyncio.get_running_loop()
    _, connection = await loop.create_connection(_Connection, host, port)
    return connection


class _Connection(asyncio.Protocol):
    """One request at a time; the answer is read to its end and thrown away."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport
        self._answered: asyncio.Future[None] | None = None
        self._start = b""
        self._missing: int | None = None
        self._tail = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is one by what it does, not by its class.
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, error: Exception | None) -> None:
        if self._answered is not None and not self._answered.done():
            self._answered.set_exception(LoadError(f"the connection broke: {error}"))

    def close(self) -> None:
        self._transport.close()

    async def exchange(self, message: bytes) -> None:
        """Send and wait for the whole answer. Raises LoadError."""
        self._answered = asyncio.get_running_loop().create_future()
        self._start, self._missing, self._tail = b"", None, b""
        self._transport.write(message)
        await self._answered

    def data_received(self, data: bytes) -> None:
        if self._missing is not None:
            self._missing -= len(data)
        elif self._tail:
            self._tail = self._tail[-len(_LAST_CHUNK) :] + data
        else:
            self._begin(data)
        if self._missing == 0 or self._tail.endswith(_LAST_CHUNK):
            self._end(None)

    def _begin(self, data: bytes) -> None:
        self._start += data
        head, separator, body = self._start.partition(b"\r\n\r\n")
        if not separator:
            return
        if not head.startswith(_OK):
            self._end(LoadError(self._start[:500].decode(errors="replace")))
            return
        length = _LENGTH.search(head)
        if length is None:
            # In chunks. The line end before the first one makes an empty answer end like others.
            self._tail = b"\r\n" + body
        else:
            self._missing = int(length[1]) - len(body)

    def _end(self, error: LoadError | None) -> None:
        assert self._answered is not None
        if self._answered.done():
            return
        if error is None:
            self._answered.set_result(None)
        else:
            self._answered.set_exception(error)
