"""Polling an engine that hands its events out over HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import web

from indexer import poll
from indexer.block import Holder, Trust
from indexer.events import Reason
from indexer.feed import Feed, Source
from indexer.hashing import pack
from indexer.poll import Polls
from indexer.prefix_index import PrefixIndex
from tests.indexer import make
from tests.indexer.make import BASE, E1

PATIENCE_S = 10.0


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0.005)


class Engine:
    """An HTTP server with a buffer of events, which every answer empties."""

    def __init__(self) -> None:
        self.buffer: list[dict[str, Any]] = []
        self.next_id = 0
        self.status = 200
        self.asked = 0
        self.url = ""

    def tell(self, data: dict[str, Any], **fields: Any) -> None:
        self.buffer.append({"event_id": self.next_id, "data": data, **fields})
        self.next_id += 1

    def store(self, blocks: int, **fields: Any) -> None:
        """A prompt of so many blocks."""
        ids = make.prompt(blocks)
        cut = [ids[at : at + 16] for at in range(0, len(ids), 16)]
        told = [
            {"block_hash": n, "tokens": [{"token_id": i} for i in block], "cache_level": 0}
            for n, block in enumerate(cut, 1)
        ]
        self.tell({"type": "stored", "parent_hash": None, "blocks": told}, **fields)

    async def answer(self, request: web.Request) -> web.Response:
        self.asked += 1
        taken, self.buffer = self.buffer, []
        return web.json_response(taken, status=self.status)

    @asynccontextmanager
    async def serving(self) -> AsyncIterator[None]:
        application = web.Application()
        application.router.add_post("/kv_cache_events", self.answer)
        runner = web.AppRunner(application, access_log=None)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        self.url = f"http://127.0.0.1:{runner.addresses[0][1]}/kv_cache_events"
        try:
            yield
        finally:
            await runner.cleanup()


class Bench:
    def __init__(self) -> None:
        self.index = PrefixIndex(16)
        self.polls = Polls(self.index)

    def source(self, engine: Engine) -> Source:
        return Source(E1, engine.url, base_model="tiny")

    def feed(self) -> Feed:
        (feed,) = self.index.feeds()
        return feed

    def score(self, holder: Holder = E1) -> int:
        match = self.index.match([BASE], pack(make.prompt()), 0.0).matches.get(holder)
        return match.blocks if match else 0


@asynccontextmanager
async def polling(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[tuple[Bench, Engine]]:
    monkeypatch.setattr(poll, "POLL_S", 0.01)
    monkeypatch.setattr(poll, "FAILED_POLL_S", 0.01)
    bench, engine = Bench(), Engine()
    async with engine.serving(), asyncio.TaskGroup() as group:
        running = group.create_task(bench.polls.run())
        bench.polls.sync([bench.source(engine)])
        try:
            yield bench, engine
        finally:
            running.cancel()
            bench.polls.close()


async def test_events_reach_the_index(monkeypatch: pytest.MonkeyPatch) -> None:
    async with polling(monkeypatch) as (bench, engine):
        engine.tell({"type": "created", "num_blocks_per_cache_level": [9, 0]})
        engine.store(4)
        await until(lambda: bench.score() == 4)
        engine.tell({"type": "removed", "block_hashes": [3, 4]})
        await until(lambda: bench.score() == 2)
        assert bench.feed().trust is Trust.EXACT


async def test_what_another_reader_took_shows_as_a_gap(monkeypatch: pytest.MonkeyPatch) -> None:
    async with polling(monkeypatch) as (bench, engine):
        engine.store(2)
        await until(lambda: bench.score() == 2)
        engine.next_id += 1
        engine.store(4)
        await until(lambda: bench.score() == 4)
        assert (bench.feed().trust, bench.feed().stats.gaps) == (Trust.PARTIAL, 1)


async def test_an_engine_that_begins_anew_loses_what_it_had(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with polling(monkeypatch) as (bench, engine):
        engine.store(4)
        await until(lambda: bench.score() == 4)
        engine.next_id = 0
        engine.store(1)
        await until(lambda: bench.score() == 1)
        assert bench.feed().stats.restarts == 1


async def test_one_that_does_not_answer_is_stale_until_it_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with polling(monkeypatch) as (bench, engine):
        engine.store(4)
        await until(lambda: bench.score() == 4)
        engine.status = 500
        await until(lambda: bench.feed().trust is Trust.STALE)
        assert bench.score() == 0
        engine.status = 200
        engine.tell({"type": "removed", "block_hashes": [4]})
        await until(lambda: bench.score() == 3)
        assert bench.feed().trust is Trust.EXACT


async def test_ranks_have_streams_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    async with polling(monkeypatch) as (bench, engine):
        engine.store(4, attention_dp_rank=1)
        await until(lambda: bench.score(Holder(E1.address, 1)) == 4)
        assert bench.score() == 0


async def test_junk_is_counted_and_leaves_doubt(monkeypatch: pytest.MonkeyPatch) -> None:
    async with polling(monkeypatch) as (bench, engine):
        engine.store(4)
        await until(lambda: bench.score() == 4)
        engine.buffer.append({"event_id": "x"})
        engine.buffer.append({"event_id": 2**70, "data": {"type": "removed", "block_hashes": []}})
        await until(lambda: Reason.BAD_EVENT in bench.feed().rejected)
        assert (bench.score(), bench.feed().trust) == (4, Trust.PARTIAL)


async def test_an_error_of_ours_costs_one_event(monkeypatch: pytest.MonkeyPatch) -> None:
    async with polling(monkeypatch) as (bench, engine):
        await until(lambda: engine.asked)
        with monkeypatch.context() as patched:
            patched.setattr(Feed, "receive", lambda *_: 1 / 0)
            engine.store(4)
            await until(lambda: bench.polls.failed)
        engine.store(4)
        await until(lambda: bench.score() == 4)


async def test_only_what_is_wanted_is_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    async with polling(monkeypatch) as (bench, engine):
        engine.store(4)
        await until(lambda: bench.score() == 4)
        bench.polls.sync([])
        assert (bench.score(), len(bench.polls), bench.index.feeds()) == (0, 0, ())
        for _ in range(100):
            bench.polls.sync([bench.source(engine)])
            bench.polls.sync([])
        asked = engine.asked
        bench.polls.sync([bench.source(engine)])
        engine.store(2)
        await until(lambda: bench.score() == 2)
        assert engine.asked > asked
        assert len(asyncio.all_tasks()) < 20


async def test_an_answer_that_is_too_large_is_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poll, "MAX_ANSWER_BYTES", 50)
    async with polling(monkeypatch) as (bench, engine):
        engine.store(4)
        await until(lambda: engine.asked > 2)
        assert bench.score() == 0
