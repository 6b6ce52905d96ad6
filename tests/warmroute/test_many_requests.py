"""Of 100,000 requests as many records stay as are kept, and nothing else grows with them.

All of a router but its sockets takes part: the ext_proc service as gRPC calls it, the built-in
configuration with its producers, the journal with its log, and the page that shows the records.
What clients choose freely is new in each request: ids, models, fairness ids, prompts.
"""

from __future__ import annotations

import asyncio
import gc
import os
import re
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, cast

import grpc
import msgspec
import pytest
import structlog
import zmq
from aiohttp.test_utils import TestClient, TestServer

from router.extproc.pb import ext_proc_pb2 as pb
from router.telemetry.http import Pages, application
from tests.router.telemetry.page.test_overview import Shop
from tests.support import envoy_messages as envoy
from tests.support import make
from tests.warmroute.test_serve import options
from warmroute.crew import Crew
from warmroute.parts import Parts

WARM_UP = 10_000
REQUESTS = 100_000
KEPT = 1000

MAX_MORE_OBJECTS = 9_000
"""A tenth of what one object for each request after the warm-up would be."""

MAX_MORE_KB = 4 * 1024
"""About 45 bytes for each."""

ENDPOINTS = [f"127.0.0.1:{port}" for port in range(9101, 9105)]


class Size(msgspec.Struct):
    """
    Attributes:
        objects: Blocks of memory that Python's objects take.
        rss_kb: Memory of the process.
        ids: Of the records that the page shows, newest first.
        page_bytes: Of that page.
    """

    objects: int
    rss_kb: int
    ids: Sequence[str]
    page_bytes: int


class Call:
    """The side of a gRPC call that takes the answers."""

    def __init__(self) -> None:
        self.answers = 0

    async def write(self, answer: pb.ProcessingResponse) -> None:
        self.answers += 1


@pytest.fixture
def log_is_written() -> Iterator[None]:
    """As the router writes it, to nowhere: kept lines would grow."""
    before = structlog.get_config()
    with open(os.devnull, "w") as nowhere:
        structlog.configure(
            processors=[structlog.processors.JSONRenderer()],
            logger_factory=structlog.WriteLoggerFactory(nowhere),
        )
        yield
    structlog.configure(**before)


@asynccontextmanager
async def router(folder: Path) -> AsyncIterator[Parts]:
    """All that a configuration runs, and no port of its own."""
    paths = (f"--endpoints={folder / 'none'}", f"--tokenizer-socket={folder / 'none'}")
    chosen = options(*paths, "--usage-sample=1")
    parts, context = Parts(chosen), zmq.Context()
    try:
        async with asyncio.TaskGroup() as group:
            crew = Crew(parts, context, group)
            await crew.adopt(chosen.config)
            parts.pool.replace([make.endpoint(address) for address in ENDPOINTS])
            yield parts
            await crew.close()
    finally:
        context.destroy(linger=0)


@asynccontextmanager
async def pages(parts: Parts) -> AsyncIterator[Any]:
    shown = Pages(
        metrics=parts.metrics,
        decisions=parts.decisions,
        ready=lambda: True,
        degraded=list,
        state=dict,
        overviews=Shop().overviews,
        match=lambda: None,
        max_body_bytes=1000,
    )
    async with TestClient(TestServer(application(shown), host="127.0.0.1")) as client:
        yield client


async def exchange(number: int) -> AsyncIterator[pb.ProcessingRequest]:
    """Of ten, one is refused, one is never answered, and one answer tells its usage."""
    named = {
        "x-request-id": f"request-{number}",
        "x-llm-d-inference-fairness-id": f"client-{number}",
    }
    yield envoy.request_headers({**envoy.POST, **named})
    body = b'{"model": "model-%d", "prompt": "prompt %d"}' % (number, number)
    yield envoy.request_body(body if number % 10 else body[:-1], end=True)
    match number % 10:
        case 3:
            yield envoy.response_headers(content_type="application/json")
            yield envoy.response_body(b'{"usage": {"prompt_tokens": %d}}' % number, end=True)
        case 5:
            return
        case _:
            yield envoy.response_headers(end=True)


async def serve(parts: Parts, numbers: range) -> None:
    """Each of these exchanges, as gRPC would hand them over."""
    call = Call()
    context = cast("grpc.aio.ServicerContext[pb.ProcessingRequest, pb.ProcessingResponse]", call)
    for number in numbers:
        await parts.processor.Process(exchange(number), context)
        if not number % 100:
            await asyncio.sleep(0)  # whatever else runs has its turn
    assert call.answers > 2 * len(numbers)


async def size(parts: Parts, client: Any) -> Size:
    response = await client.get("/debug/decisions?limit=999999")
    page = await response.read()
    records = msgspec.json.decode(page)["decisions"]
    ids = [record["request_id"] for record in records]
    assert sum(record["usage"] is not None for record in records) == KEPT / 10
    assert sum(record["refused"] is not None for record in records) == KEPT / 10
    page_bytes = len(page)
    del page, records, response
    gc.collect()
    return Size(sys.getallocatedblocks(), rss_kb(), ids, page_bytes)


def rss_kb() -> int:
    match = re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())
    assert match is not None
    return int(match[1])


@pytest.mark.usefixtures("log_is_written")
async def test_a_hundred_thousand_requests_take_no_more_room_than_ten_thousand(
    tmp_path: Path,
) -> None:
    async with router(tmp_path) as parts, pages(parts) as client:
        await serve(parts, range(WARM_UP))
        before = await size(parts, client)
        await serve(parts, range(WARM_UP, REQUESTS))
        after = await size(parts, client)
        for seen, served in ((before, WARM_UP), (after, REQUESTS)):
            assert seen.ids == [f"request-{n}" for n in range(served - 1, served - 1 - KEPT, -1)]
        assert len(list(parts.decisions.all())) == KEPT
        assert after.page_bytes < 1.1 * before.page_bytes
        assert after.objects < before.objects + MAX_MORE_OBJECTS
        assert after.rss_kb < before.rss_kb + MAX_MORE_KB
        assert parts.processor.stats.total == REQUESTS
        assert (parts.processor.stats.open, parts.processor.stats.failed) == (0, 0)
