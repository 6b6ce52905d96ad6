"""Many clients, many of whom leave: afterwards nothing is held, nothing has grown, nothing failed.

The environment variable `WARMROUTE_SOAK_S` says for how long.
"""

from __future__ import annotations

import asyncio
import os
import random
import re
from collections import Counter
from pathlib import Path

import aiohttp

from tests.end_to_end.conftest import running_fleet
from tests.support.corpus import Sent, corpus
from tests.support.processes import Fleet, until

SOAK_S = float(os.environ.get("WARMROUTE_SOAK_S", "6"))
STREAMS = 200
ABORTED = 0.1


class Outcome:
    """What the clients saw."""

    def __init__(self) -> None:
        self.statuses: Counter[int] = Counter()
        self.aborted = 0
        self.wrong: list[str] = []


async def client(url: str, sent: list[Sent], seed: int, stop: asyncio.Event, seen: Outcome) -> None:
    """Sends one request after the other until it is told to stop."""
    rng = random.Random(seed)
    # A connection of its own, since an abort closes it.
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=60)) as session:
        while not stop.is_set():
            each = rng.choice(sent)
            request = session.request(
                each.method, f"{url}{each.path}", data=each.body, headers=each.headers
            )
            if rng.random() < ABORTED:
                seen.aborted += 1
                try:
                    async with asyncio.timeout(rng.random() * 0.2), request as response:
                        await response.content.readany()
                        response.close()
                except (TimeoutError, aiohttp.ClientError):
                    continue
            else:
                async with request as response:
                    body = await response.read()
                seen.statuses[response.status] += 1
                if response.status >= 500 or (each.good and response.status != 200):
                    seen.wrong.append(f"{response.status} {each.path} {body[:200]!r}")


def rss_kb(fleet: Fleet) -> int:
    """Memory of the router's process."""
    status = Path(f"/proc/{fleet.processes['router'].pid}/status").read_text()
    match = re.search(r"VmRSS:\s+(\d+)", status)
    assert match is not None
    return int(match[1])


async def test_nothing_is_left_of_many_requests_and_nothing_grows(tmp_path: Path) -> None:
    flags = ("--decode-s-per-token=0.002", "--concurrency=256")
    async with running_fleet(tmp_path, engines=2, engine_flags=flags) as fleet:

        async def idle() -> bool:
            held = await fleet.metric("warmroute_inflight_requests")
            return held == 0 and await fleet.metric("warmroute_streams_open") == 0

        await until(idle)
        tasks = await fleet.metric("warmroute_tasks")
        sent, seen, stop = corpus(7, 400), Outcome(), asyncio.Event()
        async with asyncio.TaskGroup() as group:
            for i in range(STREAMS):
                group.create_task(client(fleet.url, sent, i, stop, seen))
            await asyncio.sleep(SOAK_S / 2)
            half_way_kb = rss_kb(fleet)
            await asyncio.sleep(SOAK_S / 2)
            stop.set()
        assert seen.wrong == []
        assert seen.statuses[200] > 50
        assert seen.statuses[400] > 0
        assert seen.aborted > 0
        await until(idle, 30)

        async def as_before() -> bool:
            return await fleet.metric("warmroute_tasks") <= tasks

        await until(as_before, 30)
        assert await fleet.metric("warmroute_streams_failed_total") == 0
        assert rss_kb(fleet) < half_way_kb * 1.15 + 16 * 1024
