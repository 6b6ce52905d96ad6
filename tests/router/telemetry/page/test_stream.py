from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientResponse, web
from aiohttp.test_utils import TestClient, TestServer

from router.telemetry.page import stream
from router.telemetry.page.stream import MAX_VIEWERS, EventStreams
from tests.router.telemetry.page.test_overview import Shop
from tests.support.processes import until
from tests.support.records import record

Client = TestClient[web.Request, web.Application]


@asynccontextmanager
async def served(shop: Shop) -> AsyncIterator[tuple[EventStreams, Client]]:
    streams = EventStreams(shop.overviews, shop.decisions)
    app = web.Application()
    app.on_shutdown.append(streams.close)
    app.router.add_get("/debug/events", streams.handle)
    async with TestClient(TestServer(app, host="127.0.0.1")) as client:
        yield streams, client


async def event(response: ClientResponse) -> tuple[str, Any]:
    """The next event: its name and what it holds."""
    fields = {}
    async with asyncio.timeout(10):
        while line := (await response.content.readline()).decode().rstrip("\n"):
            name, _, value = line.partition(": ")
            fields[name] = value
    return fields["event"], json.loads(fields["data"])


async def the_next(response: ClientResponse, name: str) -> Any:
    """What the next event of that name holds."""
    while True:
        told, data = await event(response)
        if told == name:
            return data


async def test_a_viewer_gets_curves_then_figures_then_decisions_as_they_come() -> None:
    shop = Shop()
    shop.tally.tick(92.0, ())
    shop.route()
    async with served(shop) as (_, client), client.get("/debug/events") as response:
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["cache-control"] == "no-store"
        name, points = await event(response)
        assert (name, len(points)) == ("history", 1)
        name, overview = await event(response)
        assert (name, overview["total"]["requests"]) == ("overview", 1)
        name, news = await event(response)
        assert (name, [brief["request_id"] for brief in news]) == ("decisions", ["r0"])
        shop.decisions.add(record("later\nevent: x", model="</script>"))
        (later,) = await the_next(response, "decisions")
        assert (later["request_id"], later["model"]) == ("later\nevent: x", "</script>")


async def test_figures_come_again_and_again() -> None:
    shop = Shop()
    async with served(shop) as (_, client), client.get("/debug/events") as response:
        first = await the_next(response, "overview")
        shop.route()
        second = await the_next(response, "overview")
    assert second["at"] > first["at"]
    assert second["total"]["requests"] == first["total"]["requests"] + 1


async def test_a_viewer_that_leaves_is_forgotten() -> None:
    async with served(Shop()) as (streams, client):
        response = await client.get("/debug/events")
        await event(response)
        assert streams.viewers == 1
        response.close()
        await until(lambda: streams.viewers == 0)


async def test_one_viewer_too_many_is_refused() -> None:
    async with served(Shop()) as (streams, client):
        looking = [await client.get("/debug/events") for _ in range(MAX_VIEWERS)]
        refused = await client.get("/debug/events")
        assert (refused.status, refused.headers["retry-after"]) == (503, "10")
        looking[0].close()
        await until(lambda: streams.viewers < MAX_VIEWERS)
        assert (await client.get("/debug/events")).status == 200
        for response in looking:
            response.close()


async def test_an_open_stream_does_not_keep_the_server() -> None:
    async with asyncio.timeout(5):
        async with served(Shop()) as (streams, client):
            response = await client.get("/debug/events")
            await event(response)
        assert streams.viewers == 0


async def test_a_viewer_that_reads_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream, "WRITE_S", 0.2)
    monkeypatch.setattr(stream, "INTERVAL_S", 0.001)
    shop = Shop()
    long = "x" * 200_000

    def news() -> bool:
        """Ever more to tell, until the socket takes no more."""
        shop.decisions.add(record(f"r{len(list(shop.decisions.all()))}", model=long))
        return streams.viewers == 0

    async with served(shop) as (streams, client):
        _, port = client.server.host, client.server.port
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.write(b"GET /debug/events HTTP/1.1\r\nhost: 127.0.0.1\r\n\r\n")
        await until(lambda: streams.viewers == 1)
        await until(news)
        writer.close()
