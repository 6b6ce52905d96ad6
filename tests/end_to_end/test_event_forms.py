"""A real router understands every form of events, counts junk, and forgets what is gone."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import zmq
import zmq.asyncio
from aiohttp import web

from tests.end_to_end.publishers import Engines, heard, stored, subscribed
from tests.end_to_end.routers import router
from tests.indexer.layouts import BATCHES, LAYOUTS
from tests.support.ports import free_port
from tests.support.processes import START_S, Fleet, until

IDS = list(range(64))
NAMES = [17293822569102704641, 2, 3, 4]
REMOVED = {"type": "BlockRemoved", "block_hashes": NAMES, "medium": "GPU"}
encode = msgspec.msgpack.encode


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield Fleet(tmp_path, session)


async def score(fleet: Fleet, address: str) -> int:
    told = (await fleet.match({"model": "m", "token_ids": IDS}))["endpoints"]
    return int(told[address]["blocks"]) if address in told else 0


async def _scores(fleet: Fleet, address: str, blocks: int) -> bool:
    return await score(fleet, address) == blocks


@asynccontextmanager
async def one_engine(fleet: Fleet) -> AsyncIterator[Engines]:
    """A router, subscribed to one publisher."""
    with zmq.asyncio.Context() as context:
        engines = Engines(fleet, context, 2)
        try:
            async with router(fleet, f"--config-file={fleet.folder / 'config.yaml'}"):
                await until(lambda: subscribed(fleet, 1), START_S)
                yield engines
        finally:
            engines.close()


async def test_every_form_is_credited_and_taken_back(fleet: Fleet) -> None:
    async with one_engine(fleet) as engines:
        address, (publisher,) = engines.addresses[0], engines.publishers
        topic, seq = f"kv@{address}@m".encode(), 0
        store = stored(NAMES, IDS, extra_keys=[None] * 4)

        async def send(payload: Any) -> None:
            nonlocal seq
            await publisher.send_multipart([topic, seq.to_bytes(8, "big"), encode(payload)])
            seq += 1

        for layout in LAYOUTS.values():
            await send([1.0, list(layout.write(dict(store))), 0])
            await until(lambda: _scores(fleet, address, 4))
            await send([1.0, list(layout.write(dict(REMOVED))), 0])
            await until(lambda: _scores(fleet, address, 0))
        for batch in BATCHES.values():
            await send(batch(1.0, [store], 0))
            await until(lambda: _scores(fleet, address, 4))
            await send(batch(1.0, [REMOVED], 0))
            await until(lambda: _scores(fleet, address, 0))
        assert await fleet.metric("warmroute_kv_events_rejected_total") == 0


def _junk(topic: bytes, seq: bytes) -> Sequence[tuple[str, Sequence[bytes]]]:
    """The reason it is counted under, and its frames."""
    events = [
        ("unknown_event", {"type": "BlockMoved"}),
        ("count_mismatch", stored(NAMES, IDS, block_size=0)),
        ("count_mismatch", stored(NAMES, IDS[:-1])),
    ]
    return [
        ("bad_frames", [topic]),
        ("bad_frames", [topic, seq]),
        ("bad_frames", [topic, seq, b"", b""]),
        ("bad_sequence", [topic, seq[:4], encode([1.0, [], 0])]),
        ("too_large", [topic, seq, bytes(50_000_000)]),
        ("not_msgpack", [topic, seq, encode([1.0, [stored(NAMES, IDS)], 0])[:-5]]),
        *((reason, [topic, seq, encode([1.0, [event], 0])]) for reason, event in events),
    ]


async def test_each_piece_of_junk_is_counted_once_and_the_next_message_counts(
    fleet: Fleet,
) -> None:
    async with one_engine(fleet) as engines:
        address, (publisher,) = engines.addresses[0], engines.publishers
        topic = f"kv@{address}@m".encode()
        for number in range(len(_junk(b"", b""))):
            seq = 3 * number
            reason, frames = _junk(topic, seq.to_bytes(8, "big"))[number]
            before = await _rejected(fleet, reason)
            await publisher.send_multipart(frames)
            await engines.say(0, seq + 1, stored(NAMES, IDS))
            await until(lambda: _scores(fleet, address, 4), 5)
            await engines.say(0, seq + 2, REMOVED)
            await until(lambda: _scores(fleet, address, 0), 5)
            assert await _rejected(fleet, reason) == before + 1


async def _rejected(fleet: Fleet, reason: str) -> float:
    return await fleet.metric("warmroute_kv_events_rejected_total", reason=reason)


async def test_an_endpoint_that_goes_takes_all_it_had_and_comes_back_empty(fleet: Fleet) -> None:
    with zmq.asyncio.Context() as context:
        engines = Engines(fleet, context, 2)
        listing = fleet.folder / "endpoints.json"
        both = listing.read_bytes()
        config = f"--config-file={fleet.folder / 'config.yaml'}"
        try:
            async with router(fleet, config):
                await until(lambda: subscribed(fleet, 1), START_S)
                pid = fleet.processes["router"].pid
                address = engines.addresses[0]
                descriptors = 0
                for turn in range(3):
                    for seq in range(200):
                        await engines.say(0, seq, stored(NAMES, IDS))
                    await until(lambda: heard(fleet, 1, last_seq=199))
                    assert await score(fleet, address) == 4
                    if turn == 0:
                        descriptors = len(os.listdir(f"/proc/{pid}/fd"))
                    listing.write_bytes(b'{"endpoints": []}')
                    await until(lambda: _has_streams(fleet, 0))
                    for seq in range(200, 300):
                        await engines.say(0, seq, stored(NAMES, IDS))
                    assert await score(fleet, address) == 0
                    await until(lambda: _is_empty(fleet))
                    listing.write_bytes(both)
                    await until(lambda: _has_streams(fleet, 2))
                    assert await score(fleet, address) == 0
                    await until(lambda: subscribed(fleet, 1))
                assert len(os.listdir(f"/proc/{pid}/fd")) <= descriptors + 2
        finally:
            engines.close()


async def _is_empty(fleet: Fleet) -> bool:
    return await fleet.metric("warmroute_index_entries") == 0


async def _has_streams(fleet: Fleet, count: int) -> bool:
    (index,) = (await fleet.get("/debug/state"))["indexes"]
    return len(index["feeds"]) == count


async def test_the_events_of_tensorrt_are_fetched(fleet: Fleet) -> None:
    blocks = [
        {
            "block_hash": n + 1,
            "cache_level": 0,
            "tokens": [{"token_id": t} for t in IDS[n * 16 :][:16]],
        }
        for n in range(4)
    ]
    stored_event = {"type": "stored", "parent_hash": None, "blocks": blocks}
    waiting = [{"event_id": 0, "data": {"type": "created", "num_blocks_per_cache_level": [9, 0]}}]
    waiting.append({"event_id": 1, "data": stored_event})

    async def drain(request: web.Request) -> web.Response:
        told, waiting[:] = list(waiting), []
        return web.json_response(told)

    async def models(request: web.Request) -> web.Response:
        return web.json_response({"data": [{"id": "m", "root": "m", "parent": None}]})

    app = web.Application()
    app.add_routes([web.post("/kv_cache_events", drain), web.get("/v1/models", models)])
    runner = web.AppRunner(app)
    await runner.setup()
    port = free_port()
    entry = {"name": "t", "address": "127.0.0.1", "port": str(port)}
    labelled = {**entry, "labels": {"llm-d.ai/engine-type": "trtllm-serve"}}
    with zmq.asyncio.Context() as context:
        Engines(fleet, context, 1)  # writes the configuration
    listing = msgspec.json.encode({"endpoints": [labelled]})
    (fleet.folder / "endpoints.json").write_bytes(listing)
    address = f"127.0.0.1:{port}"
    try:
        await web.TCPSite(runner, "127.0.0.1", port).start()
        async with router(fleet, f"--config-file={fleet.folder / 'config.yaml'}"):
            # Whether the last block is full cannot be told before another follows it.
            await until(lambda: _scores(fleet, address, 4), START_S)
            waiting.append({"event_id": 2, "data": {"type": "removed", "block_hashes": [2]}})
            await until(lambda: _scores(fleet, address, 1))
    finally:
        await runner.cleanup()
