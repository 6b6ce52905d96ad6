"""A router and engines that are sound until a test spoils one of them. IO."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import zmq.asyncio

from tests.end_to_end.faulty import told
from tests.end_to_end.odd_engine import OddEngine
from tests.end_to_end.routers import router
from tests.support.ports import loopback_block
from tests.support.processes import START_S, Fleet, engine, tokenizer, until

CONFIG = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - type: precise-prefix-cache-producer
  - type: prefix-cache-scorer
schedulingProfiles:
  - name: default
    plugins:
      - pluginRef: prefix-cache-scorer
"""

INDEX_BYTES = 64 * 1024
"""Room for about 300 blocks."""

ODD = ("unread", "moved", "hybrid", "novel", "garbled", "lacking", "sglang")


class World:
    """A router whose endpoints are all sound until a test spoils its own.

    Attributes:
        odd: Name -> engine that does what a test says.
        real: Address of a simulated engine.
        listed: Name -> entry of the endpoints file.
    """

    def __init__(self, fleet: Fleet, context: zmq.asyncio.Context) -> None:
        self.fleet = fleet
        self.config = fleet.folder / "config.yaml"
        head, _, last = loopback_block().rpartition(".")
        real, *hosts = (f"{head}.{int(last) + number}" for number in range(len(ODD) + 1))
        self.odd = {name: OddEngine(host, context) for name, host in zip(ODD, hosts, strict=True)}
        self.real = f"{real}:8000"
        self.listed = {name: entry_of(name, odd.address) for name, odd in self.odd.items()}
        self.listed["real"] = entry_of("real", self.real)

    def list(self) -> None:
        """Write the endpoints file."""
        listing = msgspec.json.encode({"endpoints": list(self.listed.values())})
        (self.fleet.folder / "endpoints.json").write_bytes(listing)

    def change(self, name: str, **fields: Any) -> None:
        """Say something else of an endpoint; what is None is left out."""
        changed = {**self.listed[name], **fields}
        self.listed[name] = {key: value for key, value in changed.items() if value is not None}
        self.list()

    async def all_connected(self) -> bool:
        (index,) = (await self.fleet.get("/debug/state"))["indexes"]
        return all(feed["stats"]["connections"] for feed in index["feeds"])

    async def are_sound(self) -> bool:
        """All are read; that only the endpoints file names their events is warned of."""
        codes = [finding["code"] for finding in await told(self.fleet)]
        return codes == ["config-warning"] and await self.all_connected()


def entry_of(name: str, address: str) -> dict[str, Any]:
    host, _, port = address.rpartition(":")
    events = {"endpoint": f"tcp://{host}:5557"}
    return {"name": name, "address": host, "port": port, "kvEvents": events}


@asynccontextmanager
async def odd_world(folder: Path) -> AsyncIterator[World]:
    """Everything runs, and nothing is wrong."""
    async with AsyncExitStack() as stack:
        timeout = aiohttp.ClientTimeout(total=30)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        context = stack.enter_context(zmq.asyncio.Context())
        made = World(Fleet(folder, session), context)
        for odd in made.odd.values():
            stack.callback(odd.close)
            await stack.enter_async_context(odd.answering())
        host = made.real.partition(":")[0]
        await stack.enter_async_context(engine(made.fleet, host, "--prefill-s-per-token=0"))
        await stack.enter_async_context(tokenizer(made.fleet))
        made.list()
        made.config.write_text(CONFIG)
        flags = (f"--config-file={made.config}", f"--index-bytes={INDEX_BYTES}")
        await stack.enter_async_context(router(made.fleet, *flags))
        await until(made.are_sound, START_S)
        for odd in made.odd.values():
            await odd.listened_to()
        yield made
