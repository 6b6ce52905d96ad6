from __future__ import annotations

import asyncio

import pytest

from router.stopwatch import Stopwatch


def test_each_lap_counts_from_the_one_before() -> None:
    times = iter([1.0, 1.5, 3.5])
    watch = Stopwatch(lambda: next(times))
    watch.lap("parse")
    watch.lap("schedule")
    assert watch.times_ms == {"parse": 500.0, "schedule": 2000.0}


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


async def test_what_lies_between_the_steps_of_what_is_awaited_is_no_work_of_ours() -> None:
    clock, gate = Clock(), asyncio.Event()
    watch = Stopwatch(clock)

    async def asked() -> str:
        clock.seconds += 1.0
        await gate.wait()
        clock.seconds += 2.0
        await asyncio.sleep(0)
        clock.seconds += 4.0
        return "answer"

    async def deciding() -> str:
        return await watch.watched(asked())

    async with asyncio.TaskGroup() as group:
        task = group.create_task(deciding())
        await asyncio.sleep(0)
        clock.seconds += 100.0
        gate.set()
    assert task.result() == "answer"
    clock.seconds += 0.5
    assert watch.own_ms == 7500.0


async def test_an_awaited_that_is_cancelled_or_fails_is_told_so() -> None:
    clock, told = Clock(), list[str]()
    watch = Stopwatch(clock)

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            told.append("cancelled")
            clock.seconds += 1.0
            raise

    async def outer() -> None:
        await watch.watched(waits())

    async with asyncio.TaskGroup() as group:
        task = group.create_task(outer())
        await asyncio.sleep(0)
        clock.seconds += 10.0
        task.cancel()
    assert task.cancelled()
    assert (told, watch.own_ms) == (["cancelled"], 1000.0)

    async def fails() -> None:
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        await watch.watched(fails())
