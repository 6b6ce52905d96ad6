"""Engines that compute nothing: recorded pages, an answer at once, tokens by the clock. IO.

They run in a process of their own, so that nobody mistakes their CPU time for the router's.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

import msgspec
import uvloop

MODEL = "tiny"
"""What the engines serve; the bundled model."""

STREAM_S = 5.0

TICK_S = 0.001

_CAPTURES = Path(__file__).parent.parent / "tests" / "captures"
_HEAD_BYTES = 256
"""Where the fields of a body that are read here must lie."""

_LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
_STREAMED_TOKENS = re.compile(rb'"stream":true,"max_tokens":(\d+)')
_EVENT = b'data: {"id":"cmpl-0","object":"text_completion","choices":[{"index":0,"text":" a"}]}\n\n'
_USAGE = (
    b'data: {"id":"cmpl-0","object":"text_completion","choices":[],"usage":'
    b'{"prompt_tokens":200,"completion_tokens":%d,"total_tokens":%d}}\n\ndata: [DONE]\n\n'
)
_COMPLETION = json.dumps(
    {
        "id": "cmpl-0",
        "object": "text_completion",
        "model": MODEL,
        "choices": [{"index": 0, "text": " a", "finish_reason": "length"}],
        "usage": {"prompt_tokens": 200, "completion_tokens": 1, "total_tokens": 201},
    }
).encode()
_MODELS = json.dumps({"object": "list", "data": [{"id": MODEL, "object": "model"}]}).encode()

Address = tuple[str, int]


class Behaviour(msgspec.Struct, frozen=True):
    """What all engines do.

    Attributes:
        metrics: Name of the recorded page they show: vLLM's full length.
        stream_s: A streamed answer takes so long, however many tokens it has.
    """

    metrics: str = "vllm_metrics_idle.txt"
    stream_s: float = STREAM_S


@contextmanager
def engines(
    hosts: Sequence[str],
    behaviour: Behaviour = Behaviour(),  # noqa: B008 - frozen
) -> Iterator[tuple[Sequence[Address], int]]:
    """One engine per host, each on a free port; their addresses and the pid of them all."""
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    process = context.Process(target=_serve, args=(theirs, hosts, behaviour), daemon=True)
    process.start()
    assert process.pid is not None
    # Only the child holds its end now: if it dies, reading ends, too.
    theirs.close()
    try:
        yield ours.recv(), process.pid
    finally:
        ours.close()
        process.join()


def _serve(pipe: Connection, hosts: Sequence[str], behaviour: Behaviour) -> None:
    uvloop.run(_serve_until_told(pipe, hosts, behaviour))


async def _serve_until_told(pipe: Connection, hosts: Sequence[str], behaviour: Behaviour) -> None:
    """Open the ports, say which, and serve until the other side closes the pipe or is gone."""
    pages = {
        b"GET /metrics": _page((_CAPTURES / behaviour.metrics).read_bytes(), "text/plain"),
        b"GET /v1/models": _page(_MODELS, "application/json"),
        b"POST /v1/completions": _page(_COMPLETION, "application/json"),
        b"POST /v1/chat/completions": _page(_COMPLETION, "application/json"),
        b"POST /v1/embeddings": _page(_COMPLETION, "application/json"),
    }
    loop = asyncio.get_running_loop()
    servers = [
        await loop.create_server(lambda: _Engine(pages, behaviour.stream_s), host, 0)
        for host in hosts
    ]
    pipe.send([server.sockets[0].getsockname()[:2] for server in servers])
    try:
        await asyncio.to_thread(pipe.recv)
    except EOFError:
        return


def _page(body: bytes, content_type: str, status: str = "200 OK") -> bytes:
    head = f"HTTP/1.1 {status}\r\ncontent-type: {content_type}\r\ncontent-length: {len(body)}\r\n"
    return head.encode() + b"\r\n" + body


_NOT_FOUND = _page(b"", "text/plain", "404 Not Found")
_STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
)


class _Engine(asyncio.Protocol):
    """One connection: requests with a content length, one after the other."""

    def __init__(self, pages: Mapping[bytes, bytes], stream_s: float) -> None:
        """`pages`: method and path -> whole answer."""
        self._pages = pages
        self._stream_s = stream_s
        self._pending = bytearray()
        self._missing = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # uvloop's transport is one by what it does, not by its class.
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self._pending += data
        # While a long body is under way there is nothing to look for.
        if len(self._pending) < self._missing:
            return
        end = self._pending.find(b"\r\n\r\n")
        if end < 0:
            return
        head = bytes(self._pending[:end])
        length = _LENGTH.search(head)
        self._missing = end + 4 + (int(length[1]) if length else 0)
        if len(self._pending) < self._missing:
            return
        body = bytes(self._pending[end + 4 : end + 4 + _HEAD_BYTES])
        self._pending, self._missing = bytearray(), 0
        self._answer(head, body)

    def _answer(self, head: bytes, body: bytes) -> None:
        tokens = _STREAMED_TOKENS.search(body)
        if tokens is not None:
            _Stream(self._transport, int(tokens[1]), self._stream_s).begin()
        else:
            asked = head[: head.index(b" HTTP/")]
            self._transport.write(self._pages.get(asked, _NOT_FOUND))


class _Stream:
    """One answer as server-sent events, a write each, evenly spread."""

    def __init__(self, transport: asyncio.Transport, tokens: int, seconds: float) -> None:
        self._transport = transport
        self._tokens = tokens
        self._seconds = seconds
        self._sent = 0
        self._began = time.perf_counter()

    def begin(self) -> None:
        self._transport.write(_STREAM_HEAD)
        self._tick()

    def _tick(self) -> None:
        if self._transport.is_closing():
            return
        elapsed_s = time.perf_counter() - self._began
        due = min(self._tokens, 1 + int(self._tokens * elapsed_s / self._seconds))
        for _ in range(due - self._sent):
            self._transport.write(_chunk(_EVENT))
        self._sent = due
        if elapsed_s < self._seconds:
            asyncio.get_running_loop().call_later(TICK_S, self._tick)
        else:
            usage = _USAGE % (self._tokens, 200 + self._tokens)
            self._transport.write(_chunk(usage) + b"0\r\n\r\n")


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)
