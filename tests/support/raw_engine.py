"""An engine that speaks HTTP/1.1 to the letter: it reads and sends trailers. IO."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import msgspec

EVENTS = b'data: {"n": 1, "usage": {"prompt_tokens": 3}}\n\ndata: [DONE]\n\n'


class Got(msgspec.Struct):
    """A request as it came."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes = b""
    trailers: dict[str, str] = {}


class RawEngine:
    """
    Attributes:
        requests: What came, newest last.
    """

    def __init__(self) -> None:
        self.requests: list[Got] = []

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while not reader.at_eof():
                request = await _request(reader)
                self.requests.append(request)
                writer.write(_answer(request))
                await writer.drain()
        except (asyncio.IncompleteReadError, ConnectionError):
            return
        finally:
            writer.close()


async def _request(reader: asyncio.StreamReader) -> Got:
    first, *lines = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
    method, path, _ = first.split(" ")
    got = Got(method, path, _fields(lines))
    if got.headers.get("transfer-encoding") == "chunked":
        while size := int(await reader.readuntil(b"\r\n"), 16):
            got.body += (await reader.readexactly(size + 2))[:-2]
        lines = []
        while (line := await reader.readuntil(b"\r\n")) != b"\r\n":
            lines.append(line.decode("latin-1").rstrip("\r\n"))
        got.trailers = _fields(lines)
    else:
        got.body = await reader.readexactly(int(got.headers.get("content-length", 0)))
    return got


def _fields(lines: list[str]) -> dict[str, str]:
    parts = (line.partition(":") for line in lines if line)
    return {name.lower(): value.strip() for name, _, value in parts}


def _answer(request: Got) -> bytes:
    """As ``x-test`` asks for: JSON, events, or events and a trailer."""
    match request.headers.get("x-test"):
        case "events":
            return _chunked(b"")
        case "trailers":
            return _chunked(b"x-after: all\r\n")
        case _:
            body = msgspec.json.encode({"size": len(request.body), "model": "target"})
            head = "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: "
            shown = b"" if request.method == "HEAD" else body
            return f"{head}{len(body)}\r\n\r\n".encode() + shown


def _chunked(trailers: bytes) -> bytes:
    head = (
        b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    )
    return head + b"%x\r\n" % len(EVENTS) + EVENTS + b"\r\n0\r\n" + trailers + b"\r\n"


@asynccontextmanager
async def raw_engine(host: str, port: int = 8000) -> AsyncIterator[RawEngine]:
    """Serve until the block ends."""
    engine = RawEngine()
    server = await asyncio.start_server(engine.serve, host, port)
    try:
        yield engine
    finally:
        server.close()
        await server.wait_closed()
