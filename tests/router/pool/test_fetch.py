"""A GET to an engine gives a body, or the reason why not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import aiohttp
import pytest
from yarl import URL

from router.pool.fetch import MAX_BODY_BYTES, FetchFailed, fetch, open_session
from tests.router.pool.engines import METRICS, Engine, running


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with open_session(keepalive_s=5, timeout_s=5) as session:
        yield session


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    async with running(Engine()) as engine:
        yield engine


def url(engine: Engine) -> URL:
    return URL(f"http://{engine.address}/metrics")


async def failure(session: aiohttp.ClientSession, url: URL) -> FetchFailed:
    with pytest.raises(FetchFailed) as caught:
        await fetch(session, url)
    return caught.value


async def raw_server(answer: bytes) -> asyncio.Server:
    """Answers each request with the given bytes and closes the connection."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        writer.close()

    return await asyncio.start_server(serve, "127.0.0.1", 0)


async def raw_failure(session: aiohttp.ClientSession, answer: bytes) -> FetchFailed:
    async with await raw_server(answer) as server:
        port = server.sockets[0].getsockname()[1]
        return await failure(session, URL(f"http://127.0.0.1:{port}/metrics"))


async def test_a_good_answer_is_its_body(session: aiohttp.ClientSession, engine: Engine) -> None:
    assert await fetch(session, url(engine)) == METRICS.encode()


async def test_the_connection_is_kept(session: aiohttp.ClientSession, engine: Engine) -> None:
    for _ in range(3):
        await fetch(session, url(engine))
    assert len(engine.connections) == 1


async def test_another_status_is_a_failure_though_the_engine_answered(
    session: aiohttp.ClientSession, engine: Engine
) -> None:
    engine.status = 503
    failed = await failure(session, url(engine))
    assert (failed.reason, failed.detail, failed.answered) == ("status", "status 503", True)


async def test_a_redirect_is_not_followed(session: aiohttp.ClientSession, engine: Engine) -> None:
    engine.status, engine.headers = 302, {"Location": "/elsewhere"}
    assert (await failure(session, url(engine))).reason == "status"
    assert engine.asked.keys() == {"/metrics"}


async def test_a_packed_body_that_was_not_asked_for_is_refused(
    session: aiohttp.ClientSession, engine: Engine
) -> None:
    engine.headers = {"Content-Encoding": "gzip"}
    assert (await failure(session, url(engine))).reason == "encoding"


async def test_a_body_over_the_cap_is_refused(
    session: aiohttp.ClientSession, engine: Engine
) -> None:
    engine.metrics = "x" * MAX_BODY_BYTES
    assert len(await fetch(session, url(engine))) == MAX_BODY_BYTES
    engine.metrics += "x"
    assert (await failure(session, url(engine))).reason == "too-large"


async def test_an_engine_that_does_not_answer_in_time_is_a_timeout(engine: Engine) -> None:
    engine.answering.clear()
    async with open_session(keepalive_s=5, timeout_s=0.05) as session:
        failed = await failure(session, url(engine))
    assert (failed.reason, failed.answered) == ("timeout", False)


async def test_a_port_nobody_listens_on_is_unreachable(session: aiohttp.ClientSession) -> None:
    async with running(Engine()) as engine:
        gone = url(engine)
    failed = await failure(session, gone)
    assert (failed.reason, failed.answered) == ("unreachable", False)


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (b"", "broken-off"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "broken-off"),
        (b"SSH-2.0-OpenSSH_9.9\r\n\r\n", "not-http"),
    ],
    ids=["closed at once", "body cut short", "another protocol"],
)
async def test_a_broken_answer_is_told_from_another_protocol(
    session: aiohttp.ClientSession, answer: bytes, reason: str
) -> None:
    assert (await raw_failure(session, answer)).reason == reason
