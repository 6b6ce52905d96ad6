"""A client that speaks HTTP/2 with trailers, which most client libraries cannot send. IO."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import msgspec
from h2.config import H2Configuration
from h2.connection import H2Connection
from h2.events import (
    DataReceived,
    Event,
    ResponseReceived,
    StreamEnded,
    StreamReset,
    TrailersReceived,
)

Headers = Sequence[tuple[str, str]]


class Answer(msgspec.Struct):
    """What came back.

    Attributes:
        reset: The stream was reset instead of ended.
    """

    status: int = 0
    headers: Headers = ()
    body: bytes = b""
    trailers: Headers = ()
    reset: bool = False


async def send(
    port: int,
    method: str,
    path: str,
    *,
    authority: str = "localhost",
    headers: Mapping[str, str] | None = None,
    body: Sequence[bytes] = (),
    trailers: Mapping[str, str] | None = None,
    host: str = "127.0.0.1",
) -> Answer:
    """One request on a connection of its own; each piece of the body is a DATA frame or several."""
    reader, writer = await asyncio.open_connection(host, port)
    connection = H2Connection(H2Configuration(client_side=True, header_encoding="utf-8"))
    exchange = _Exchange(connection, reader, writer)
    try:
        connection.initiate_connection()
        pseudo = {":method": method, ":path": path, ":scheme": "http", ":authority": authority}
        named = [*pseudo.items(), *(headers or {}).items()]
        connection.send_headers(1, named, end_stream=not body and not trailers)
        for i, piece in enumerate(body, 1):
            await exchange.data(piece, end=i == len(body) and not trailers)
        if trailers:
            connection.send_headers(1, list(trailers.items()), end_stream=True)
        await exchange.until_the_end()
        return exchange.answer
    finally:
        writer.close()
        await writer.wait_closed()


class _Exchange:
    def __init__(
        self, connection: H2Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        self._connection = connection
        self._reader = reader
        self._writer = writer
        self._ended = False
        self.answer = Answer()

    async def data(self, piece: bytes, *, end: bool) -> None:
        while piece or end:
            room = min(
                self._connection.local_flow_control_window(1),
                self._connection.max_outbound_frame_size,
            )
            if piece and not room:
                await self._receive()
                continue
            last = end and len(piece) <= room
            self._connection.send_data(1, piece[:room], end_stream=last)
            piece = piece[room:]
            await self._flush()
            if last or not piece:
                return

    async def until_the_end(self) -> None:
        await self._flush()
        while not self._ended:
            await self._receive()

    async def _flush(self) -> None:
        self._writer.write(self._connection.data_to_send())
        await self._writer.drain()

    async def _receive(self) -> None:
        data = await self._reader.read(65536)
        if not data:
            raise ConnectionError("the connection ended before the answer did")
        for event in self._connection.receive_data(data):
            self._take(event)
        await self._flush()

    def _take(self, event: Event) -> None:
        match event:
            case ResponseReceived(headers=headers):
                named = [(_text(name), _text(value)) for name, value in headers or ()]
                self.answer.status = int(dict(named)[":status"])
                self.answer.headers = named
            case DataReceived(data=data):
                self.answer.body += data or b""
                self._connection.acknowledge_received_data(event.flow_controlled_length or 0, 1)
            case TrailersReceived(headers=headers):
                self.answer.trailers = [(_text(n), _text(v)) for n, v in headers or ()]
            case StreamEnded():
                self._ended = True
            case StreamReset():
                self._ended = self.answer.reset = True
            case _:
                return


def _text(value: str | bytes) -> str:
    return value if isinstance(value, str) else value.decode()
