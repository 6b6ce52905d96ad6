"""What lies in shared storage, through real Envoy: credited to every endpoint of its model."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import zmq
import zmq.asyncio

from simulator.config import BUNDLED_MODEL_DIR
from tests.end_to_end.publishers import stored
from tests.support.ports import free_port, loopback_block
from tests.support.processes import START_S, Fleet, engine, router_and_envoy, until

IDS = list(range(100, 164))
CONFIG = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - type: token-producer
    parameters: {{sidecar: {{}}}}
  - type: precise-prefix-cache-producer
    parameters:
      indexerConfig:
        kvCacheBackendConfigs:
          - {{name: gpu, weight: 1.0}}
          - {{name: shared_storage, weight: 0.25}}
      kvEventsConfig:
        zmqEndpoint: {endpoint}
        discoverPods: false
  - type: prefix-cache-scorer
  - type: max-score-picker
schedulingProfiles:
  - name: default
    plugins:
      - pluginRef: prefix-cache-scorer
      - pluginRef: max-score-picker
"""


class Storage:
    """Speaks for engines and for storage on the router's own address, and asks what came of it."""

    def __init__(self, fleet: Fleet, socket: zmq.asyncio.Socket) -> None:
        self.heard, self.silent, self.other = fleet.engines
        self._fleet = fleet
        self._socket = socket
        self._seq: dict[str, int] = {}

    async def say(self, topic: str, *events: Any) -> None:
        seq = self._seq[topic] = self._seq.get(topic, -1) + 1
        payload = msgspec.msgpack.encode([float(seq), events, 0])
        await self._socket.send_multipart([topic.encode(), seq.to_bytes(8, "big"), payload])

    async def tiers(self, model: str = "tiny") -> dict[str, Any]:
        """Address -> what it is credited with, where that is anything."""
        told = await self._fleet.match({"model": model, "token_ids": IDS})
        return {a: e["tiers"] for a, e in told["endpoints"].items() if e["blocks"]}

    async def complete(self, model: str = "tiny") -> Any:
        """Send the prompt; the record of where it went."""
        body = {"model": model, "prompt": IDS, "max_tokens": 1}
        url = f"{self._fleet.url}/v1/completions"
        async with self._fleet.session.post(url, json=body) as answer:
            assert answer.status == 200, await answer.text()
        return (await self._fleet.get("/debug/decisions?limit=1"))["decisions"][0]


@pytest.fixture
async def storage(tmp_path: Path) -> AsyncIterator[Storage]:
    head, _, last = loopback_block().rpartition(".")
    hosts = [f"{head}.{int(last) + i}" for i in range(3)]
    address = f"tcp://127.0.0.1:{free_port()}"
    config = tmp_path / "config.yaml"
    config.write_text(CONFIG.format(endpoint=address))
    entries = [{"name": host, "address": host, "port": 8000} for host in hosts]
    listing = tmp_path / "endpoints.json"
    listing.write_bytes(msgspec.json.encode({"endpoints": entries}))
    async with AsyncExitStack() as stack:
        timeout = aiohttp.ClientTimeout(total=30)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        fleet = Fleet(tmp_path, session)
        fleet.engines = [f"{host}:8000" for host in hosts]
        for host in hosts[:2]:
            await stack.enter_async_context(engine(fleet, host))
        other = f"--model=other={BUNDLED_MODEL_DIR}"
        await stack.enter_async_context(engine(fleet, hosts[2], other))
        await stack.enter_async_context(router_and_envoy(fleet, listing, f"--config-file={config}"))
        await until(lambda: _all_told(fleet), START_S)
        await until(fleet.answers, START_S)
        socket = stack.enter_context(zmq.asyncio.Context()).socket(zmq.PUB)
        stack.callback(socket.close, linger=0)
        socket.connect(address)
        told = Storage(fleet, socket)
        await until(lambda: _is_connected(told, fleet), START_S)
        yield told


async def _all_told(fleet: Fleet) -> bool:
    """Every engine has said what it serves."""
    if not await fleet.metrics_page():
        return False
    endpoints = (await fleet.get("/debug/state"))["endpoints"]
    return len(endpoints) == 3 and all(endpoint["models"] for endpoint in endpoints)


async def _is_connected(storage: Storage, fleet: Fleet) -> bool:
    """A publisher's first messages are lost until the subscription has reached it."""
    storage._seq.clear()
    await storage.say(f"kv@{storage.heard}@tiny", {"type": "AllBlocksCleared"})
    (index,) = (await fleet.get("/debug/state"))["indexes"]
    return bool(index["feeds"])


def placed(*names: int) -> Sequence[Any]:
    """A store as storage tiers tell it: by names alone, in arrays."""
    return ["BlockStored", names, 0, [], 0, None, "OBJECT_STORE"]


@pytest.mark.parametrize("tier", ["SHARED_STORAGE", "OBJECT_STORE", "REMOTE"])
async def test_every_endpoint_of_the_model_is_credited_and_the_weight_counts(
    storage: Storage, tier: str
) -> None:
    heard, silent = storage.heard, storage.silent
    await storage.say(f"kv@{heard}@tiny", stored([1, 2, 3, 4], IDS))
    await until(lambda: _equals(storage, {heard: {"gpu": 4}}))
    if tier == "REMOTE":
        remote = stored([1, 2, 3, 4], IDS, medium="STORAGE", locality="REMOTE")
        await storage.say(f"kv@{heard}@tiny", remote)
    else:
        await storage.say(f"kv@{tier}@tiny", placed(1, 2, 3, 4))
    await until(lambda: _equals(storage, {heard: {"gpu": 4}, silent: {"shared_storage": 4}}))
    record = await storage.complete()
    assert record["endpoint"] == heard
    weighted = {address: held["weighted"] for address, held in record["prefix"].items()}
    assert weighted == {heard: 4.0, silent: 1.0}
    why = "it does not list the model"
    assert record["dropped"] == [
        {"filter": "served-models", "addresses": [storage.other], "why": why}
    ]
    assert await storage.tiers("other") == {}
    assert (await storage.complete("other"))["endpoint"] == storage.other

    await storage.say(f"kv@{heard}@tiny", {"type": "AllBlocksCleared"})
    shared = {"shared_storage": 4}
    await until(lambda: _equals(storage, {heard: shared, silent: shared}))


async def _equals(storage: Storage, tiers: dict[str, Any]) -> bool:
    return await storage.tiers() == tiers
