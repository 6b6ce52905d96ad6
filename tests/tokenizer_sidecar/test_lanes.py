"""Lanes: order, limits, deadlines, cancelled calls."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from functools import partial

import pytest

from tests.tokenizer_sidecar.wire import until
from tokenizer_sidecar.lanes import Busy, Expired, Lane


class Gate:
    """Work that waits until it is let through."""

    def __init__(self) -> None:
        self.open = threading.Event()
        self.begun: list[int] = []

    def work(self, number: int) -> int:
        self.begun.append(number)
        assert self.open.wait(20)
        return number


@pytest.fixture
async def gate() -> AsyncIterator[Gate]:
    gate = Gate()
    yield gate
    gate.open.set()


async def test_calls_run_in_the_order_they_come(gate: Gate) -> None:
    lane = Lane("test", 1, 10)
    async with asyncio.TaskGroup() as group:
        running = [group.create_task(lane.run(partial(gate.work, i))) for i in range(4)]
        await until(lambda: lane.waiting == 3)
        assert gate.begun == [0]
        gate.open.set()
    assert [task.result() for task in running] == gate.begun == [0, 1, 2, 3]
    assert lane.waiting == 0
    lane.close()


async def test_a_call_too_many_is_refused_and_later_ones_are_not(gate: Gate) -> None:
    lane = Lane("test", 1, 1)
    async with asyncio.TaskGroup() as group:
        for i in range(2):
            group.create_task(lane.run(partial(gate.work, i)))
        await until(lambda: lane.waiting == 1)
        with pytest.raises(Busy):
            await lane.run(lambda: gate.work(9))
        gate.open.set()
    assert await lane.run(lambda: gate.work(3)) == 3
    assert gate.begun == [0, 1, 3]
    lane.close()


async def test_without_a_queue_a_free_thread_is_still_used(gate: Gate) -> None:
    gate.open.set()
    lane = Lane("test", 1, 0)
    assert await lane.run(lambda: gate.work(1)) == 1
    lane.close()


async def test_a_call_whose_time_is_over_is_not_begun(gate: Gate) -> None:
    lane = Lane("test", 1, 10)
    now = asyncio.get_running_loop().time()
    with pytest.raises(Expired):
        await lane.run(lambda: gate.work(1), now - 1)
    gate.open.set()
    assert await lane.run(lambda: gate.work(2), now + 60) == 2
    assert gate.begun == [2]
    lane.close()


async def test_a_cancelled_call_leaves_the_queue(gate: Gate) -> None:
    lane = Lane("test", 1, 10)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(lane.run(lambda: gate.work(1)))
        second = group.create_task(lane.run(lambda: gate.work(2)))
        await until(lambda: lane.waiting == 1)
        second.cancel()
        await until(lambda: lane.waiting == 0)
        gate.open.set()
        assert await first == 1
    assert gate.begun == [1]
    lane.close()


async def test_what_the_work_raises_is_raised() -> None:
    lane = Lane("test", 1, 10)
    with pytest.raises(ZeroDivisionError):
        await lane.run(lambda: 1 // 0)
    assert await lane.run(lambda: 3) == 3
    lane.close()
