"""Subscriptions with a socket that engines connect to."""

from __future__ import annotations

import asyncio

import pytest
import zmq

from indexer.block import Holder, Trust
from indexer.central import Central, Key
from indexer.feed import Source
from tests.indexer import make
from tests.indexer.make import E1, E2, NAMES
from tests.indexer.subscribed import Bench, Context, until
from tests.support.ports import free_port


def _locate(key: Key) -> Source | None:
    return Source(Holder(key.address, key.rank), "central") if key.address != "gone" else None


@pytest.fixture
async def central(context: Context, bench: Bench) -> str:
    """The address of a socket that engines connect to."""
    endpoint = f"tcp://127.0.0.1:{free_port()}"
    bench.subscriptions.bind(endpoint, Central(bench.index, _locate, "kv@"))
    bench.subscriptions.sync([])
    return endpoint


async def test_engines_that_connect_are_told_apart_and_their_ends_noticed(
    context: Context, bench: Bench, central: str
) -> None:
    sent = dict.fromkeys((E1, E2), 0)

    async def announce(socket: zmq.Socket[bytes], holder: Holder, *events: object) -> None:
        """Send until heard: what is sent before the subscription came is lost."""
        topic = f"kv@{holder.address}@tiny".encode()
        heard = _messages(bench, holder)
        while _messages(bench, holder) == heard:
            socket.send_multipart(make.frames(sent[holder], *events, topic=topic))
            await asyncio.sleep(0.01)
        sent[holder] += 1

    with context.socket(zmq.PUB) as first, context.socket(zmq.PUB) as second:
        for socket in (first, second):
            socket.setsockopt(zmq.LINGER, 0)
            socket.connect(central)
        await announce(first, E1, make.stored())
        await announce(second, E2, make.stored(NAMES[:2]))
        await until(lambda: (bench.score(E1), bench.score(E2)) == (4, 2))
        second.close()
        await until(lambda: bench.index.trust(E2) is Trust.STALE)
        assert (bench.score(E1), bench.score(E2)) == (4, 0)
        assert bench.index.trust(E1) is Trust.EXACT


async def test_an_address_that_is_taken_cannot_be_bound(
    context: Context, bench: Bench, central: str
) -> None:
    other = Bench(context)
    with pytest.raises(zmq.ZMQError):
        other.subscriptions.bind(central, Central(other.index, _locate, "kv@"))


async def test_an_error_of_ours_on_the_common_socket_costs_one_message(
    context: Context, bench: Bench, central: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with context.socket(zmq.PUB) as engine, monkeypatch.context() as patched:
        engine.setsockopt(zmq.LINGER, 0)
        engine.connect(central)
        patched.setattr(Central, "receive", lambda *_: 1 / 0)
        while not bench.subscriptions.stats.failed:
            engine.send_multipart(make.frames(0, make.stored()))
            await asyncio.sleep(0.01)
        patched.undo()
        engine.send_multipart(make.frames(0, make.stored()))
        await until(lambda: bench.score() == 4)


def _messages(bench: Bench, holder: Holder) -> int:
    feeds = bench.index.feeds()
    return sum(feed.stats.messages for feed in feeds if feed.source.holder == holder)
