"""What only the HTTP side does; the rest shows through the connectors and the proxy."""

from __future__ import annotations

import asyncio

from pd_sidecar.engines import CONNECT_S, KEEPALIVE_S, session
from tests.pd_sidecar.fakes import DECODED, PREFILLED, FakeEngine, setup
from tests.support.processes import until


async def test_a_connection_that_the_engine_closed_meanwhile_costs_no_request() -> None:
    requests = 0

    async def closing(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Answers one request a connection, and drops the next one without a word.
        nonlocal requests
        await reader.readuntil(b"}")
        requests += 1
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}")
        await writer.drain()
        await reader.read(1)
        writer.close()

    async with await asyncio.start_server(closing, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        engines = FakeEngine(PREFILLED), FakeEngine(DECODED)
        async with setup(*engines, engine_port=port) as fake:
            for _ in range(3):
                response, _ = await fake.ask({"prompt": "x"}, at="")
                assert response.status == 200
            await until(lambda: requests == 3)


async def test_idle_connections_are_dropped_before_engines_drop_them() -> None:
    async with session() as client:
        assert client.connector is not None
        assert KEEPALIVE_S < 5
        assert client.timeout.sock_connect == CONNECT_S
        assert client.timeout.total is None
