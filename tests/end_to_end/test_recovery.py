"""A router that is killed comes back to what it knew: by replays, or by what it kept on disk."""

from __future__ import annotations

import functools
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.end_to_end.routers import router
from tests.support.ports import loopback_block
from tests.support.processes import START_S, Fleet, engine, until

MODEL = "tiny"
PROMPTS = [list(range(start, start + 400)) for start in (10, 500, 900)]


@asynccontextmanager
async def engines(fleet: Fleet, count: int, *flags: str) -> AsyncIterator[list[str]]:
    """Warm simulated engines, each with prompts of its own."""
    head, _, last = loopback_block().rpartition(".")
    hosts = [f"{head}.{int(last) + i}" for i in range(count)]
    async with AsyncExitStack() as stack:
        for number, host in enumerate(hosts):
            await stack.enter_async_context(engine(fleet, host, *flags))
            await until(functools.partial(_serves, fleet, host), START_S)
            for prompt in PROMPTS[number:]:
                await _complete(fleet, host, prompt)
        yield hosts


def write_endpoints(fleet: Fleet, hosts: Sequence[str], *, replay: bool) -> None:
    entries: list[dict[str, Any]] = []
    for number, host in enumerate(hosts):
        events = {"endpoint": f"tcp://{host}:5557"}
        if replay:
            events["replay"] = f"tcp://{host}:5657"
        entry = {"name": f"e{number}", "address": host, "port": 8000, "kvEvents": events}
        entries.append(entry)
    (fleet.folder / "endpoints.json").write_bytes(msgspec.json.encode({"endpoints": entries}))


async def matches(fleet: Fleet) -> list[Mapping[str, Any]]:
    return [(await fleet.match({"model": MODEL, "token_ids": p}))["endpoints"] for p in PROMPTS]


async def blocks(fleet: Fleet) -> list[dict[str, int]]:
    return [{a: e["blocks"] for a, e in told.items()} for told in await matches(fleet)]


async def trust(fleet: Fleet) -> set[str]:
    return {entry["trust"] for told in await matches(fleet) for entry in told.values()}


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield Fleet(tmp_path, session)


async def test_by_replay(fleet: Fleet) -> None:
    async with engines(fleet, 2) as hosts:
        write_endpoints(fleet, hosts, replay=True)
        expected = [
            {f"{hosts[0]}:8000": 25, f"{hosts[1]}:8000": 0 if number == 0 else 25}
            for number in range(len(PROMPTS))
        ]
        for _ in range(2):  # the first one joins late, too
            async with router(fleet):
                await until(lambda: _is_exact(fleet), START_S)
                assert await blocks(fleet) == expected
                fleet.kill("router")
                await fleet.processes["router"].wait()


async def test_by_a_snapshot_where_engines_do_not_replay(fleet: Fleet) -> None:
    kept = fleet.folder / "kept"
    kept.mkdir()
    flags = (f"--state-dir={kept}", "--state-interval=200ms")
    async with engines(fleet, 2) as hosts:
        write_endpoints(fleet, hosts, replay=False)
        cold = {f"{host}:8000": 0 for host in hosts}
        async with router(fleet, *flags):
            await until(lambda: _subscribed(fleet, 2), START_S)
            assert await blocks(fleet) == [cold] * len(PROMPTS)
            for prompt in PROMPTS:  # other prompts, which the router hears of
                for host in hosts:
                    await _complete(fleet, host, prompt[::-1])
            probes = [{"model": MODEL, "token_ids": prompt[::-1]} for prompt in PROMPTS]
            await until(lambda: _all_have(fleet, probes, 25), START_S)
            before = [await fleet.match(probe) for probe in probes]
            heard_ns = time.time_ns()
            await until(lambda: _saved_since(kept, heard_ns + 10**9))
            fleet.kill("router")
            await fleet.processes["router"].wait()
        async with router(fleet, *flags):
            await until(lambda: _all_have(fleet, probes, 25), START_S)
            after = [await fleet.match(probe) for probe in probes]
            assert _without_trust(after) == _without_trust(before)
            assert await trust(fleet) == {"partial"}
            await _complete(fleet, hosts[0], PROMPTS[0][5:])
            await until(lambda: _all_have(fleet, probes, 25), START_S)
            fleet.kill("router")
            await fleet.processes["router"].wait()


async def test_what_was_kept_of_an_engine_that_restarted_meanwhile_is_not_credited(
    fleet: Fleet,
) -> None:
    kept = fleet.folder / "kept"
    kept.mkdir()
    async with engines(fleet, 1) as hosts:
        write_endpoints(fleet, hosts, replay=True)
        async with router(fleet, f"--state-dir={kept}"):
            await until(lambda: _is_exact(fleet), START_S)
    assert list(kept.iterdir()), "a router that ends keeps what it knew"
    async with (
        engine(fleet, hosts[0], "--replay-port=5999"),
        router(fleet, f"--state-dir={kept}"),
    ):
        await until(lambda: _is_scraped(fleet), START_S)
        assert b"snapshot.restored" in fleet.log.read_bytes()
        assert [set(told.values()) for told in await blocks(fleet)] == [{0}] * len(PROMPTS)


def _without_trust(answers: Sequence[Any]) -> list[dict[str, Any]]:
    return [
        {a: {k: v for k, v in e.items() if k != "trust"} for a, e in answer["endpoints"].items()}
        for answer in answers
    ]


async def _is_exact(fleet: Fleet) -> bool:
    return await trust(fleet) == {"exact"}


async def _is_scraped(fleet: Fleet) -> bool:
    state = await fleet.get("/debug/state")
    (index,) = state["indexes"]
    trusts = {feed["trust"] for feed in index["feeds"]}
    return all(e["metrics"] for e in state["endpoints"]) and trusts == {"partial"}


async def _subscribed(fleet: Fleet, count: int) -> bool:
    state = await fleet.get("/debug/state")
    (index,) = state["indexes"]
    return [feed["stats"]["connections"] for feed in index["feeds"]] == [1] * count


async def _all_have(fleet: Fleet, probes: Sequence[Any], count: int) -> bool:
    told = [(await fleet.match(probe))["endpoints"].values() for probe in probes]
    return all(entry["blocks"] == count for entries in told for entry in entries)


def _saved_since(folder: Path, time_ns: int) -> bool:
    return any(path.stat().st_mtime_ns > time_ns for path in folder.glob("*.snapshot"))


async def _serves(fleet: Fleet, host: str) -> bool:
    try:
        async with fleet.session.get(f"http://{host}:8000/health") as response:
            return response.status == 200
    except aiohttp.ClientError:
        return False


async def _complete(fleet: Fleet, host: str, prompt: Sequence[int]) -> None:
    body = {"model": MODEL, "prompt": list(prompt), "max_tokens": 1}
    async with fleet.session.post(f"http://{host}:8000/v1/completions", json=body) as response:
        assert response.status == 200, await response.text()
