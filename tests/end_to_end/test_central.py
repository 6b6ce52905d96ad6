"""Engines that connect to the router's own address, told apart by their topics."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import zmq
import zmq.asyncio

from tests.end_to_end.routers import router
from tests.support.ports import free_port
from tests.support.processes import START_S, Fleet, command, process, until

A, B = "127.0.0.1:9101", "127.0.0.1:9102"
IDS = list(range(64))

CONFIG = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - type: precise-prefix-cache-producer
    parameters:
      kvEventsConfig:
        zmqEndpoint: {endpoint}
        discoverPods: false
  - type: prefix-cache-scorer
schedulingProfiles:
  - name: default
    plugins:
      - pluginRef: prefix-cache-scorer
"""


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        fleet = Fleet(tmp_path, session)
        entries = [
            {"name": f"e{n}", "address": "127.0.0.1", "port": a.rpartition(":")[2]}
            for n, a in enumerate((A, B))
        ]
        (tmp_path / "endpoints.json").write_bytes(msgspec.json.encode({"endpoints": entries}))
        yield fleet


def frames(seq: int, topic: str, *events: Any) -> Sequence[bytes]:
    payload = msgspec.msgpack.encode([float(seq), events, 0])
    return [topic.encode(), seq.to_bytes(8, "big"), payload]


def stored(count: int) -> dict[str, Any]:
    return {
        "type": "BlockStored",
        "block_hashes": list(range(1, count + 1)),
        "parent_block_hash": None,
        "token_ids": IDS[: 16 * count],
        "block_size": 16,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
    }


async def test_their_events_are_credited_and_what_is_dropped_is_shown(fleet: Fleet) -> None:
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    config = fleet.folder / "config.yaml"
    config.write_text(CONFIG.format(endpoint=endpoint))
    with zmq.asyncio.Context() as context, context.socket(zmq.PUB) as engine:
        engine.setsockopt(zmq.LINGER, 0)
        async with router(fleet, f"--config-file={config}"):
            engine.connect(endpoint)

            async def credited() -> bool:
                await engine.send_multipart(frames(0, f"kv@{A}@m", stored(4)))
                return {a: e["blocks"] for a, e in (await answer()).items()}.get(A) == 4

            async def answer() -> dict[str, Any]:
                told = await fleet.match({"model": "m", "token_ids": IDS})
                entries: dict[str, Any] = told["endpoints"]
                return entries

            await until(credited, START_S)
            assert (await answer())[A]["trust"] == "exact"
            for topic in ("kv@10.1.1.1:1@m", "kv@nonsense", "other", ""):
                await engine.send_multipart(frames(0, topic, stored(4)))
            await engine.send_multipart(frames(1, f"kv@{A}@m"))
            await until(lambda: _last_seq(fleet, 1))
            (index,) = (await fleet.get("/debug/state"))["indexes"]
            assert index["central"]["rejected"] == {
                "unknown_endpoint": 1,
                "bad_topic": 1,
                "filtered": 2,
            }
            assert index["central"]["unknown_addresses"] == {"10.1.1.1:1": 1}
            assert index["central"]["topics_left_out"] == {"kv@nonsense": 1, "other": 1, "": 1}
            faults = [f for f in (await fleet.get("/readyz"))["degraded"] if f.startswith("kv ")]
            assert faults == [
                "kv events: addresses of no endpoint: 10.1.1.1:1 (1)",
                "kv events: topics that are left out: 'kv@nonsense' (1), 'other' (1), '' (1)",
            ]
            rejected = "warmroute_kv_events_rejected_total"
            assert await fleet.metric(rejected, reason="unknown_endpoint") == 1


async def test_an_address_that_cannot_be_bound_ends_the_start(fleet: Fleet) -> None:
    with zmq.Context() as context, context.socket(zmq.SUB) as taken:
        taken.bind("tcp://127.0.0.1:*")
        endpoint = taken.getsockopt_string(zmq.LAST_ENDPOINT)
        config = fleet.folder / "config.yaml"
        config.write_text(CONFIG.format(endpoint=endpoint))
        serve = command(
            "serve",
            f"--config-file={config}",
            f"--endpoints={fleet.folder / 'endpoints.json'}",
            f"--metrics-port={fleet.http_port}",
        )
        async with process(serve, fleet.log) as running:
            assert await running.wait() == 1
        assert f"zmqEndpoint: cannot bind {endpoint}" in fleet.log.read_text()


async def _last_seq(fleet: Fleet, seq: int) -> bool:
    (index,) = (await fleet.get("/debug/state"))["indexes"]
    return any(feed["stats"]["last_seq"] == seq for feed in index["feeds"])
