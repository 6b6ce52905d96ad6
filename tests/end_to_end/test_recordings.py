"""Recorded events of a real vLLM, published over ZMQ to a running router, tell what it reused."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack, contextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest
import zmq
import zmq.asyncio

from tests.support import recordings
from tests.support.ports import free_port, loopback_block
from tests.support.processes import Fleet, command, process, until
from tests.support.recordings import BLOCK_SIZE, Asked, Message


class Publisher:
    """An engine's PUB socket, for one rank."""

    def __init__(self, context: zmq.asyncio.Context, address: str) -> None:
        self._context = context
        self._address = address
        self._socket = self._bind()
        self.sent = 0

    def _bind(self) -> zmq.asyncio.Socket:
        # XPUB, since it tells of subscribers: what is sent before one is there is lost.
        socket = self._context.socket(zmq.XPUB)
        socket.setsockopt(zmq.LINGER, 0)
        try:
            socket.bind(self._address)
        except zmq.ZMQError:
            socket.close()
            raise
        return socket

    async def subscribed(self) -> None:
        assert (await self._socket.recv())[:1] == b"\x01"

    async def send(self, frames: Sequence[bytes]) -> None:
        await self._socket.send_multipart(frames)
        self.sent += 1

    async def restart(self) -> None:
        """As a killed engine that comes back on the same port."""
        self.close()
        # A closed socket gives its port back a moment later.
        self._socket = await until(self._bound)
        await self.subscribed()

    def _bound(self) -> zmq.asyncio.Socket | None:
        try:
            return self._bind()
        except zmq.ZMQError:
            return None

    def close(self) -> None:
        self._socket.close()


@contextmanager
def publishers(count: int) -> Iterator[list[Publisher]]:
    context = zmq.asyncio.Context()
    host = loopback_block()
    made = [Publisher(context, f"tcp://{host}:{5557 + rank}") for rank in range(count)]
    try:
        yield made
    finally:
        for publisher in made:
            publisher.close()
        context.destroy(linger=0)


class Player:
    """A running router, fed with a recording step by step."""

    ADDRESS = "127.0.0.1:8000"

    def __init__(self, fleet: Fleet, engine: Sequence[Publisher]) -> None:
        self._fleet = fleet
        self._engine = engine

    async def predicted(self, asked: Asked) -> int:
        """Tokens the router expects the engine to reuse, before its events say anything."""
        question: dict[str, Any] = {"model": "tiny", "token_ids": asked.prompts[0]}
        if asked.lora is not None:
            question["lora_name"] = asked.lora
        if asked.cache_salt is not None:
            question["cache_salt"] = asked.cache_salt
        found = (await self._fleet.match(question))["endpoints"][self.ADDRESS]
        if asked.rank is not None and "ranks" in found:
            found = found["ranks"].get(str(asked.rank), {"blocks": 0})
        reusable = (len(asked.prompts[0]) - 1) // BLOCK_SIZE
        blocks: int = found["blocks"]
        return min(blocks, reusable) * BLOCK_SIZE

    async def publish(self, messages: Sequence[Message]) -> None:
        """Send, and wait until the router has taken everything in."""
        for message in messages:
            await self._engine[message.publisher].send(message.frames)
        await until(self._caught_up)

    async def _caught_up(self) -> bool:
        state = await self._fleet.get("/debug/state")
        feeds = state["indexes"][0]["feeds"]
        received = {feed["holder"]["rank"]: feed["stats"]["messages"] for feed in feeds}
        return all(received[rank] == p.sent for rank, p in enumerate(self._engine))


async def play(
    folder: Path, name: str, *, ranks: int = 1, restart_at: str = ""
) -> Mapping[str, Any]:
    """Step -> (predicted, really reused) of every request that can be predicted."""
    asked = recordings.requests(name)
    events = recordings.messages(name)
    outcome: dict[str, tuple[int, int]] = {}
    async with AsyncExitStack() as stack:
        engine = stack.enter_context(publishers(ranks))
        session = await stack.enter_async_context(aiohttp.ClientSession())
        fleet = Fleet(folder, session)
        await stack.enter_async_context(process(_serve(fleet, engine), fleet.log))
        await until(fleet.metrics_page)
        for publisher in engine:
            await publisher.subscribed()
        player, played = Player(fleet, engine), set()
        for request in asked:
            if request.step == restart_at:
                await engine[0].restart()
            if request.predictable and request.cached_tokens is not None:
                predicted = await player.predicted(request)
                outcome[request.step] = predicted, request.cached_tokens
            if request.step not in played:
                played.add(request.step)
                await player.publish(events.get(request.step, []))
    return outcome


def _serve(fleet: Fleet, engine: Sequence[Publisher]) -> list[str]:
    streams = [{"rank": i, "endpoint": p._address} for i, p in enumerate(engine)]
    entry = {"name": "e", "address": "127.0.0.1", "port": 8000, "kvEvents": streams}
    path = fleet.folder / "endpoints.json"
    path.write_bytes(msgspec.json.encode({"endpoints": [entry]}))
    return command(
        "serve",
        f"--endpoints={path}",
        "--bind-address=127.0.0.1",
        f"--grpc-port={fleet.grpc_port}",
        f"--grpc-health-port={free_port()}",
        f"--metrics-port={fleet.http_port}",
        f"--tokenizer-socket={fleet.socket}",
        "--secure-serving=false",
        "--drain-timeout=0s",
    )


@pytest.mark.parametrize(
    ("name", "ranks", "count", "wrong"),
    [
        # Its report mode announces a block a second time that is removed only once.
        pytest.param("bs16_sha256_full", 1, 59, {"052-A-after-evictions"}, id="integer-hashes"),
        pytest.param("bs16_sha256cbor_bytes", 1, 21, set(), id="byte-hashes"),
        pytest.param("bs16_dp2", 2, 15, set(), id="two-ranks"),
        # Asked before any event can show that the engine was restarted.
        pytest.param("bs16_restart", 1, 6, {"run2-A"}, id="restart"),
    ],
)
async def test_the_engine_reuses_what_the_router_predicts(
    tmp_path: Path, name: str, ranks: int, count: int, wrong: set[str]
) -> None:
    outcome = await play(tmp_path, name, ranks=ranks)
    assert len(outcome) == count
    assert {step for step, (predicted, real) in outcome.items() if predicted != real} == wrong
    assert sum(real > 0 for _, real in outcome.values()) > 1


async def test_a_restart_shows_at_once_where_the_connection_breaks(tmp_path: Path) -> None:
    outcome = await play(tmp_path, "bs16_restart", restart_at="run2-A")
    assert outcome["run1-A-again"] == (48, 48)
    assert outcome["run2-A"] == (0, 0)
    assert outcome["run2-A-again"] == (48, 48)
