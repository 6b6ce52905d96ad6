"""A real router says what is wrong with what engines publish, and keeps its index in its bounds."""

from __future__ import annotations

from collections.abc import AsyncIterator
from functools import partial
from pathlib import Path

import aiohttp
import pytest
import zmq
import zmq.asyncio

from tests.end_to_end.publishers import Engines, heard, stored, subscribed
from tests.end_to_end.routers import router
from tests.support.processes import START_S, Fleet, until


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield Fleet(tmp_path, session)


async def said(fleet: Fleet, address: str) -> list[str]:
    """What is degraded about an endpoint's events."""
    about = f"endpoint {address}: "
    faults = (await fleet.get("/readyz"))["degraded"]
    told = [fault.removeprefix(about) for fault in faults if fault.startswith(about)]
    return [fault for fault in told if "scrape" not in fault]


async def test_every_fault_of_a_stream_is_named_with_its_endpoint(fleet: Fleet) -> None:
    unfit, odd, wrong, late, lost, silent = range(6)
    with zmq.asyncio.Context() as context:
        engines = Engines(fleet, context, 6)
        try:
            async with router(fleet, f"--config-file={fleet.folder / 'config.yaml'}"):
                await until(lambda: subscribed(fleet, 5), START_S)
                await engines.say(unfit, 0, stored([1], range(24), block_size=24))
                group = {"group_idx": 0, "kv_cache_spec_kind": "novel"}
                await engines.say(odd, 0, stored([1], range(16), **group))
                await engines.say(wrong, 0, stored([1], range(16)), topic="other")
                await engines.say(late, 7, stored([1], range(16)))
                await engines.say(lost, 0, stored([1], range(16)))
                await until(lambda: heard(fleet, 5))
                engines.publishers[lost].close()

                async def is_said(number: int, fault: str) -> bool:
                    return any(
                        fault in told for told in await said(fleet, engines.addresses[number])
                    )

                for number, fault in {
                    unfit: "its blocks of 24 tokens do not fit the index's of 16",
                    odd: "its KV cache groups cannot be judged: unsupported_group",
                    wrong: "1 messages left out: topic 'other' does not start with 'kv@'",
                    late: "its event stream is partial: joined late",
                    lost: "its event stream is lost",
                    silent: "nothing connected yet for its events, tcp://127.0.0.1:",
                }.items():
                    await until(partial(is_said, number, fault))
                (index,) = (await fleet.get("/debug/state"))["indexes"]
                holders = {h["holder"]["address"]: h for h in index["holders"]}
                assert holders[engines.addresses[unfit]]["block_size"] == 24
                assert holders[engines.addresses[odd]]["refused"] == "unsupported_group"
                feeds = {feed["holder"]["address"]: feed for feed in index["feeds"]}
                assert feeds[engines.addresses[wrong]]["rejected"] == {"filtered": 1}
                assert all(feed["faults"] for a, feed in feeds.items() if a not in holders)
        finally:
            engines.close()


async def test_a_small_budget_keeps_prefixes_and_drops_tails(fleet: Fleet) -> None:
    tokens = list(range(16 * 200))
    flags = ("--index-bytes=64Ki", "--index-bytes-per-endpoint=40Ki")
    with zmq.asyncio.Context() as context:
        engines = Engines(fleet, context, 2)
        (publisher,) = engines.publishers
        with publisher:
            async with router(fleet, f"--config-file={fleet.folder / 'config.yaml'}", *flags):
                await until(lambda: subscribed(fleet, 1), START_S)
                for seq in range(4):
                    names = range(50 * seq + 1, 50 * seq + 51)
                    part = tokens[800 * seq : 800 * seq + 800]
                    event = {**stored(names, part), "parent_block_hash": 50 * seq or None}
                    await engines.say(0, seq, event)
                await until(lambda: heard(fleet, 1, last_seq=3))
                address = engines.addresses[0]
                told = await fleet.match({"model": "m", "token_ids": tokens})
                kept = told["endpoints"][address]["blocks"]
                assert 50 <= kept < 200
                (index,) = (await fleet.get("/debug/state"))["indexes"]
                assert index["bounds"] == {
                    "index_bytes": 65536,
                    "index_bytes_per_endpoint": 40960,
                }
                assert 0 < index["stats"]["bytes"] <= 40960
                (holder,) = index["holders"]
                assert (holder["blocks"], holder["dropped_blocks"]) == ({"gpu": kept}, 200 - kept)
                assert f"no room in the index for {200 - kept} of its blocks" in await said(
                    fleet, address
                )
                assert await fleet.metric("warmroute_index_bytes") == index["stats"]["bytes"]
