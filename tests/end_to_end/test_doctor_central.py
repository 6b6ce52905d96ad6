"""What can be wrong with the address that engines connect to: found, mended, and gone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import aiohttp
import msgspec
import pytest
import zmq
import zmq.asyncio

from tests.end_to_end.faulty import finds, found, gone
from tests.end_to_end.routers import router
from tests.end_to_end.test_central import CONFIG, frames, stored
from tests.support.ports import free_port, loopback_block
from tests.support.processes import START_S, Fleet, until

PRODUCER = "precise-prefix-cache-producer"


@pytest.fixture
async def fleet(tmp_path: Path) -> AsyncIterator[Fleet]:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        yield Fleet(tmp_path, session)


def listed(fleet: Fleet, *addresses: str) -> None:
    """Write the endpoints file."""
    entries = [
        {"name": f"e{n}", "address": a.partition(":")[0], "port": a.partition(":")[2]}
        for n, a in enumerate(addresses)
    ]
    listing = msgspec.json.encode({"endpoints": entries})
    (fleet.folder / "endpoints.json").write_bytes(listing)


async def test_topics_that_name_no_endpoint_are_named_until_the_file_has_it(fleet: Fleet) -> None:
    endpoint, host = f"tcp://127.0.0.1:{free_port()}", loopback_block()
    known, new = f"{host}:8000", f"{host}:8001"
    listed(fleet, known)
    config = fleet.folder / "config.yaml"
    config.write_text(CONFIG.format(endpoint=endpoint))
    with zmq.asyncio.Context() as context, context.socket(zmq.XPUB) as engine:
        engine.setsockopt(zmq.LINGER, 0)
        async with router(fleet, f"--config-file={config}"):
            engine.connect(endpoint)
            assert await engine.recv() == b"\x01"
            await engine.send_multipart(frames(0, f"kv@{known}@m", stored(4)))
            await until(lambda: _credited(fleet, known), START_S)
            assert not await finds(fleet, "topic-unknown")

            await engine.send_multipart(frames(0, f"kv@{new}@m", stored(4)))
            finding = await found(fleet, "topic-unknown")
            assert finding["about"] == PRODUCER
            assert finding["evidence"] == {
                "addresses": [new],
                "topics_left_out": [],
                "endpoints": [known],
            }
            assert "let the engines' topic be kv@ADDRESS@MODEL" in finding["fix"]
            assert not await finds(fleet, "no-event-source")

            listed(fleet, known, new)
            await gone(fleet, "topic-unknown")
            await engine.send_multipart(frames(1, f"kv@{new}@m", stored(4)))
            await until(lambda: _credited(fleet, new))
            assert not await finds(fleet, "topic-unknown")

            await engine.send_multipart(frames(0, "kv-events", stored(4)))
            finding = await found(fleet, "topic-unknown")
            assert finding["evidence"]["topics_left_out"] == ["kv-events"]
            assert finding["evidence"]["endpoints"] == [known, new]


async def test_a_port_that_is_taken_is_named_until_the_file_has_another(fleet: Fleet) -> None:
    before = CONFIG.format(endpoint=f"tcp://127.0.0.1:{free_port()}")
    listed(fleet, f"{loopback_block()}:8000")
    config = fleet.folder / "config.yaml"
    config.write_text(before)
    with zmq.Context() as context, context.socket(zmq.SUB) as other:
        port = other.bind_to_random_port("tcp://127.0.0.1")
        taken = f"tcp://127.0.0.1:{port}"
        async with router(fleet, f"--config-file={config}"):
            assert not await finds(fleet, "config-not-in-force")
            config.write_text(CONFIG.format(endpoint=taken))
            finding = await found(fleet, "config-not-in-force")
            error = finding["evidence"]["error"]
            assert f"zmqEndpoint: cannot bind {taken}: Address already in use" in error
            assert finding["evidence"]["failures"] == 1
            config.write_text(before)
            await gone(fleet, "config-not-in-force")


async def _credited(fleet: Fleet, address: str) -> bool:
    match = await fleet.match({"model": "m", "token_ids": list(range(64))})
    return address in match["endpoints"] and bool(match["endpoints"][address]["blocks"])
