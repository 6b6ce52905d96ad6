"""Every endpoint has its turn, evenly spread and never twice at once."""

from __future__ import annotations

import asyncio
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.pool.pool import Pool
from router.pool.rounds import Rounds, next_due, phase
from tests.router.pool.engines import until
from tests.support import make


async def test_endpoints_are_visited_while_they_are_there() -> None:
    pool, visits = Pool([make.endpoint("a:1")]), Counter[str]()

    async def visit(address: str) -> None:
        visits[address] += 1

    rounds = Rounds(pool, visit, 0.01)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(rounds.run())
        await asyncio.wait_for(rounds.first_pass.wait(), 5)
        pool.replace([make.endpoint("b:1")])
        seen = visits["a:1"]
        await until(lambda: visits["b:1"] > 3)
        assert visits["a:1"] == seen
        task.cancel()
    pool.replace([make.endpoint("c:1")])
    assert visits["c:1"] == 0


@given(st.floats(-100, 100), st.floats(0.01, 10), st.floats(0, 1000), st.floats(0, 1000))
def test_the_next_turn_is_on_the_grid_and_after_the_last_one(
    grid_s: float, interval_s: float, last_s: float, now_s: float
) -> None:
    due = next_due(grid_s, interval_s, last_s=last_s, now_s=now_s)
    slack = 1e-6
    assert due >= max(now_s, last_s + interval_s / 2) - slack
    assert due <= max(now_s, last_s + interval_s / 2) + interval_s + slack
    rounds = (due - grid_s) / interval_s
    assert rounds == pytest.approx(round(rounds), abs=1e-4)


@given(st.integers(1, 500))
def test_the_turns_of_all_endpoints_are_spread_over_the_interval(count: int) -> None:
    turns = sorted(phase(nth) for nth in range(count))
    gaps = [after - before for before, after in zip(turns, [*turns[1:], turns[0] + 1], strict=True)]
    assert max(gaps) < 2.7 / count
