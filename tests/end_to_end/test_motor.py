"""A Motor configuration with real Envoy, router, sidecar and engines, and its conductor's API."""

from __future__ import annotations

import functools
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import zmq

from tests.end_to_end.routers import router
from tests.indexer.conductor.api import TOPIC, covered, query, registering, stored
from tests.indexer.subscribed import Context, Publisher
from tests.support.ports import free_port, loopback_block
from tests.support.processes import (
    Fleet,
    endpoints_file,
    engine,
    router_and_envoy,
    tokenizer,
    until,
)

SIZE = 128
PROMPT = [(at * 7919) % 900 for at in range(5 * SIZE + 7)]


def user_config(port: int, **affinity: Any) -> str:
    engines = {"kv-events-config": {"publisher": "zmq", "endpoint": "tcp://*:5557"}}
    scheduler = {"scheduler_type": "kv_cache_affinity", "kv_affinity": affinity}
    return json.dumps(
        {
            "version": "v2.0",
            "motor_coordinator_config": {
                "scheduler_config": {**scheduler, "deploy_mode": "single_node"}
            },
            "motor_engine_union_config": {"engine_type": "vllm", "engine_config": engines},
            "kv_conductor_config": {
                "block_size": SIZE,
                "npu_endpoint": "tcp://*:5557",
                "http_server_port": port,
                "re_register_interval_sec": 1,
            },
        }
    )


def plain_endpoints(path: Path, engines: list[str]) -> Path:
    """Nothing of events: the configuration tells where they are."""
    endpoints_file(path, engines)
    told = json.loads(path.read_text())
    for entry in told["endpoints"]:
        del entry["kvEvents"]
    path.write_text(json.dumps(told))
    return path


@pytest.fixture
async def session() -> AsyncIterator[aiohttp.ClientSession]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield session


@pytest.fixture
def fleet(tmp_path: Path, session: aiohttp.ClientSession) -> Fleet:
    return Fleet(tmp_path, session)


async def test_a_prompt_goes_where_it_is_held_and_both_dialects_tell_the_same(
    fleet: Fleet, session: aiohttp.ClientSession
) -> None:
    first = loopback_block()
    head, _, last = first.rpartition(".")
    hosts = [first, f"{head}.{int(last) + 1}"]
    fleet.engines = [f"{host}:8000" for host in hosts]
    port = free_port()
    config = fleet.folder / "user_config.json"
    config.write_text(user_config(port))
    endpoints = plain_endpoints(fleet.folder / "endpoints.json", fleet.engines)
    url = f"http://127.0.0.1:{port}"
    flags = f"--config-file={config}"

    async def asked(count: int) -> Any:
        body = {"model": "tiny", "block_size": SIZE, "token_ids": PROMPT[:count]}
        async with session.post(f"{url}/query", json=body) as response:
            assert response.status == 200, await response.text()
            return (await response.json())["default"]

    async with (
        tokenizer(fleet),
        engine(fleet, hosts[0], f"--block-size={SIZE}"),
        engine(fleet, hosts[1], f"--block-size={SIZE}"),
        router_and_envoy(fleet, endpoints, flags),
    ):
        await until(fleet.undegraded, 60)
        served = set()
        for _ in range(3):
            body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 1}
            async with session.post(f"{fleet.url}/v1/completions", json=body) as response:
                assert response.status == 200, await response.text()
            await until(lambda: asked(len(PROMPT)))
            served |= {entry["endpoint"] for entry in fleet.ended()}
        (address,) = served
        name = f"e{fleet.engines.index(address) + 1}"
        for count in (SIZE - 1, SIZE, 3 * SIZE, len(PROMPT)):
            match = await fleet.match({"model": "tiny", "token_ids": PROMPT[:count]})
            blocks = match["endpoints"].get(address, {"blocks": 0})["blocks"]
            held = (await asked(count)).get(name, {"DP": {"0": {"npu_blocks": 0}}})
            assert held["DP"]["0"]["npu_blocks"] == blocks == count // SIZE
        async with session.get(f"{url}/workers") as response:
            told = await response.json()
        assert {worker["instance_id"] for worker in told["workers"]} == {"e1", "e2"}


async def test_a_wrong_block_size_is_told_with_the_one_that_engines_send(
    fleet: Fleet, session: aiohttp.ClientSession
) -> None:
    host = loopback_block()
    fleet.engines = [f"{host}:8000"]
    config = fleet.folder / "user_config.json"
    config.write_text(user_config(free_port(), load_weight=0))
    endpoints = plain_endpoints(fleet.folder / "endpoints.json", fleet.engines)

    async def told() -> Any:
        async with session.get(f"{fleet.http}/readyz") as response:
            degraded = (await response.json())["degraded"]
        return [fault for fault in degraded if "block_size" in fault]

    async with (
        tokenizer(fleet),
        engine(fleet, host, "--block-size=96"),
        router_and_envoy(fleet, endpoints, f"--config-file={config}"),
    ):
        await until(fleet.undegraded, 60)
        body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 1}
        async with session.post(f"{fleet.url}/v1/completions", json=body) as response:
            assert response.status == 200
        (fault,) = await until(told)
    assert fault.endswith("block_size is 128, and it sends blocks of 96")


async def test_a_killed_router_comes_back_to_what_registered_engines_hold(
    fleet: Fleet, session: aiohttp.ClientSession
) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    config = fleet.folder / "user_config.json"
    config.write_text(user_config(port))
    plain_endpoints(fleet.folder / "endpoints.json", [])
    flags = (f"--config-file={config}", f"--state-dir={fleet.folder}", "--state-interval=50ms")

    async def found() -> Any:
        async with session.post(f"{url}/query", json=query()) as response:
            return (await response.json())["default"] if response.ok else None

    def kept() -> set[tuple[str, int]]:
        return {(p.name, p.stat().st_mtime_ns) for p in fleet.folder.glob("*.snapshot")}

    context: Context = zmq.Context()
    answers = []
    with Publisher(context) as publisher:
        for life in range(2):
            async with router(fleet, *flags):
                if not life:
                    body = registering(medium_endpoints={"npu": publisher.endpoint})
                    async with session.post(f"{url}/register", json=body) as response:
                        assert response.status == 201
                await publisher.heard()
                publisher.send(*([] if life else [stored([11, 12])]), topic=TOPIC)
                answers.append(await until(found))
                for _ in range(2):  # the first may have begun before
                    await until(functools.partial(_is_other, kept, kept()))
                fleet.kill("router")
                await fleet.processes["router"].wait()
            await publisher.heard(0)
    context.destroy(linger=0)
    ranks = {"0": covered(2)}
    assert answers == [{"vllm-prefill-1": {"longest_matched": 2 * SIZE, "DP": ranks}}] * 2


def _is_other(now: Callable[[], object], before: object) -> bool:
    return now() != before
