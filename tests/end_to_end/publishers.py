"""Publishers of KV events at endpoints where nothing else answers, for a router process. IO."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import zmq
import zmq.asyncio

from tests.support.ports import free_port
from tests.support.processes import Fleet

CONFIG = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - type: precise-prefix-cache-producer
    parameters: {kvEventsConfig: {topicFilter: kv@}}
  - type: prefix-cache-scorer
schedulingProfiles:
  - name: default
    plugins:
      - pluginRef: prefix-cache-scorer
"""


class Engines:
    """Publishers, each at an endpoint where nothing else answers.

    Attributes:
        addresses: Of the endpoints.
        publishers: One for each, in the same order, but for the last.
    """

    def __init__(self, fleet: Fleet, context: zmq.asyncio.Context, count: int) -> None:
        self.addresses = [f"127.0.0.1:{free_port()}" for _ in range(count)]
        ports = [free_port() for _ in range(count)]
        self.publishers = [context.socket(zmq.PUB) for _ in ports[:-1]]
        for publisher, port in zip(self.publishers, ports, strict=False):
            publisher.setsockopt(zmq.LINGER, 0)
            publisher.bind(f"tcp://127.0.0.1:{port}")
        entries = [
            {
                "name": f"e{number}",
                "address": "127.0.0.1",
                "port": address.rpartition(":")[2],
                "kvEvents": {"endpoint": f"tcp://127.0.0.1:{port}"},
            }
            for number, (address, port) in enumerate(zip(self.addresses, ports, strict=True))
        ]
        listing = msgspec.json.encode({"endpoints": entries})
        (fleet.folder / "endpoints.json").write_bytes(listing)
        (fleet.folder / "config.yaml").write_text(CONFIG)

    def close(self) -> None:
        for publisher in self.publishers:
            publisher.close()

    async def say(self, number: int, seq: int, *events: Any, topic: str = "") -> None:
        payload = msgspec.msgpack.encode([float(seq), events, 0])
        named = topic or f"kv@{self.addresses[number]}@m"
        frames = [named.encode(), seq.to_bytes(8, "big"), payload]
        await self.publishers[number].send_multipart(frames)


def stored(names: Sequence[int], tokens: Sequence[int], **fields: Any) -> Mapping[str, Any]:
    return {
        "type": "BlockStored",
        "block_hashes": list(names),
        "parent_block_hash": None,
        "token_ids": list(tokens),
        "block_size": 16,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        **fields,
    }


async def subscribed(fleet: Fleet, count: int) -> bool:
    (index,) = (await fleet.get("/debug/state"))["indexes"]
    connections = [int(feed["stats"]["connections"]) for feed in index["feeds"]]
    return sum(connections) >= count


async def heard(fleet: Fleet, count: int, last_seq: int = 0) -> bool:
    (index,) = (await fleet.get("/debug/state"))["indexes"]
    seqs: list[int | None] = [feed["stats"]["last_seq"] for feed in index["feeds"]]
    return sum(seq is not None and seq >= last_seq for seq in seqs) >= count
