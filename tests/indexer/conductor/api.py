"""A conductor's API over real HTTP, and the blocks of 128 tokens its tests are about. IO."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import aiohttp
import msgspec
from aiohttp import web

from indexer.conductor.conductor import Conductor
from indexer.conductor.http import application
from indexer.conductor.service import ConductorService
from indexer.prefix_index import PrefixIndex
from tests.indexer.subscribed import Context

SIZE = 128
MODEL = "m"
TOPIC = b"kv-events"


def tokens(blocks: int, start: int = 0) -> list[int]:
    """Token ids of exactly so many blocks."""
    return list(range(start * SIZE, (start + blocks) * SIZE))


def stored(
    names: Sequence[int], start: int = 0, parent: int | None = None, **fields: Any
) -> dict[str, Any]:
    """A store as an engine publishes it: the blocks from block `start` of `tokens` on."""
    return {
        "type": "BlockStored",
        "block_hashes": list(names),
        "parent_block_hash": parent,
        "token_ids": tokens(len(names), start),
        "block_size": SIZE,
        **fields,
    }


def registering(instance: str = "vllm-prefill-1", rank: int = 0, **fields: Any) -> dict[str, Any]:
    return {
        "instance_id": instance,
        "type": "vLLM",
        "modelname": MODEL,
        "block_size": SIZE,
        "dp_rank": rank,
        "tenant_id": "default",
        **fields,
    }


def query(blocks: int = 5, **fields: Any) -> dict[str, Any]:
    asked = {"model": MODEL, "block_size": SIZE, "token_ids": tokens(blocks)}
    return {**asked, "tenant_id": "default", **fields}


def covered(npu: int, cpu: int = 0, disk: int = 0) -> dict[str, int]:
    return {
        "matched_tokens": (npu + cpu + disk) * SIZE,
        "npu_blocks": npu,
        "cpu_blocks": cpu,
        "disk_blocks": disk,
    }


class Reply(NamedTuple):
    status: int
    body: Any


class Api:
    """A client of one conductor."""

    def __init__(self, session: aiohttp.ClientSession, url: str, service: ConductorService) -> None:
        self.url = url
        self.service = service
        self._session = session

    async def post(
        self, path: str, body: Mapping[str, Any] | bytes, content_type: str = "application/json"
    ) -> Reply:
        packed = "msgpack" in content_type
        if not isinstance(body, bytes):
            body = msgspec.msgpack.encode(body) if packed else msgspec.json.encode(body)
        headers = {"content-type": content_type}
        async with self._session.post(self.url + path, data=body, headers=headers) as response:
            raw = await response.read()
            assert response.content_type == content_type.partition(";")[0]
            decode = msgspec.msgpack.decode if packed else msgspec.json.decode
            return Reply(response.status, decode(raw))

    async def get(self, path: str) -> tuple[int, str]:
        async with self._session.get(self.url + path) as response:
            return response.status, await response.text()

    async def found(self, **asked: Any) -> Any:
        """The answer's instances, for the default tenant."""
        reply = await self.post("/query", query(**asked))
        assert reply.status == 200, reply
        return reply.body["default"]

    async def ranks(self, instance: str = "vllm-prefill-1", **asked: Any) -> Any:
        return (await self.found(**asked)).get(instance, {"DP": {}})["DP"]


@asynccontextmanager
async def running(context: Context, folder: Path | None = None) -> AsyncIterator[Api]:
    """A conductor with an API on a free port."""
    conductor = Conductor(lambda size: PrefixIndex(size, pools=True))
    service = ConductorService(conductor, context, folder)
    service.restore()
    runner = web.AppRunner(application(service), access_log=None)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        port = runner.addresses[0][1]
        async with aiohttp.ClientSession() as session:
            yield Api(session, f"http://127.0.0.1:{port}", service)
    finally:
        await runner.cleanup()
        service.close()
