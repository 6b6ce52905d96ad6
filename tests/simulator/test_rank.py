from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from simulator.clock import Timing
from simulator.config import EngineConfig
from simulator.engine import Engine
from simulator.metrics import Metrics
from simulator.rank import Rank
from simulator.types import FinishReason, Output
from tests.simulator import make

TIMEOUT_S = 10.0


@asynccontextmanager
async def stepping(engine: Engine) -> AsyncIterator[Rank]:
    rank = Rank(0, engine, Metrics(EngineConfig(), [engine], 0.0), None)
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(rank.run())
        yield rank
        task.cancel()


async def until_end(outputs: asyncio.Queue[Output]) -> list[Output]:
    got: list[Output] = []
    async with asyncio.timeout(TIMEOUT_S):
        while not got or got[-1].finish_reason is None:
            got.append(await outputs.get())
    return got


def fast() -> Engine:
    return make.engine(timing=Timing(prefill_s_per_token=0.0, decode_s_per_token=0.0))


async def test_tokens_come_to_the_queue_of_their_request() -> None:
    first: asyncio.Queue[Output] = asyncio.Queue()
    second: asyncio.Queue[Output] = asyncio.Queue()
    async with stepping(fast()) as rank:
        rank.submit(make.request(max_tokens=3, answer=[1, 2, 3]), first)
        rank.submit(make.request(max_tokens=2, answer=[7, 8]), second)
        assert [output.token_id for output in await until_end(first)] == [1, 2, 3]
        assert [output.token_id for output in await until_end(second)] == [7, 8]


async def test_an_idle_engine_wakes_for_the_next_request() -> None:
    async with stepping(fast()) as rank:
        for _ in range(3):
            outputs: asyncio.Queue[Output] = asyncio.Queue()
            rank.submit(make.request(max_tokens=1), outputs)
            assert (await until_end(outputs))[-1].finish_reason is FinishReason.LENGTH
        assert rank.unfinished == 0


async def test_steps_take_the_time_that_the_model_says() -> None:
    timing = Timing(prefill_s_per_token=0.0, decode_s_per_token=0.010)
    outputs: asyncio.Queue[Output] = asyncio.Queue()
    async with stepping(make.engine(timing=timing)) as rank:
        started_s = time.monotonic()
        rank.submit(make.request(max_tokens=11), outputs)
        await until_end(outputs)
    assert time.monotonic() - started_s >= 0.09


async def test_an_aborted_request_gets_no_more_tokens_and_frees_its_blocks() -> None:
    timing = Timing(decode_s_per_token=0.001)
    outputs: asyncio.Queue[Output] = asyncio.Queue()
    engine = make.engine(timing=timing)
    async with stepping(engine) as rank:
        request = make.request(max_tokens=1000)
        rank.submit(request, outputs)
        await outputs.get()
        rank.abort(request.request_id)
        rank.abort(request.request_id)
        later: asyncio.Queue[Output] = asyncio.Queue()
        rank.submit(make.request(max_tokens=3), later)
        await until_end(later)
    assert engine.cache.usage == 0
    assert outputs.empty()


async def test_a_request_that_cannot_be_served_is_refused_and_forgotten() -> None:
    async with stepping(make.engine(num_blocks=3)) as rank:
        with pytest.raises(ValueError, match="tokens"):
            rank.submit(make.request(range(100)), asyncio.Queue())
        assert rank.unfinished == 0
