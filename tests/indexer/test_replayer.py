"""Replays over real sockets: engines that answer, lose, stall, or are not there."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager

import pytest
import zmq

from indexer import replayer
from indexer.block import Holder, Trust
from indexer.feed import Source
from indexer.hashing import pack
from indexer.prefix_index import PrefixIndex
from indexer.replay import Replay
from indexer.sockets import Context
from indexer.subscriber import Subscriptions
from simulator import events as simulated
from simulator.wire import AllBlocksCleared
from tests.indexer import make
from tests.indexer.make import BASE, E1, NAMES

PATIENCE_S = 30.0
END = [b"", b"\xff" * 8, b""]


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0.005)


class Engine:
    """A publisher with a ROUTER for replays, as vLLM has them.

    Attributes:
        asked: First numbers that were asked for.
        is_mute: Read requests, and answer none.
    """

    def __init__(self, context: Context, pub: str = "", router: str = "") -> None:
        self.pub = context.socket(zmq.XPUB)
        self.router = context.socket(zmq.ROUTER)
        self.pub.setsockopt(zmq.SNDHWM, 0)
        self.pub.setsockopt(zmq.XPUB_VERBOSE, 1)
        self.router.setsockopt(zmq.SNDHWM, 1000)  # vLLM leaves ZMQ's default
        for socket, address in ((self.pub, pub), (self.router, router)):
            socket.setsockopt(zmq.LINGER, 0)
            _bind(socket, address or "tcp://127.0.0.1:*")
        self.sent: list[list[bytes]] = []
        self.asked: list[int] = []
        self.is_mute = False
        self.waiting = 0

    def source(self, holder: Holder = E1) -> Source:
        return Source(
            holder,
            self.pub.getsockopt_string(zmq.LAST_ENDPOINT),
            replay=self.router.getsockopt_string(zmq.LAST_ENDPOINT),
        )

    def publish(self, *events: object, heard: bool = True) -> None:
        message = make.frames(len(self.sent), *events, ts=len(self.sent))
        self.sent.append(message)
        if heard:
            self.pub.send_multipart(message)

    async def answer(self) -> None:
        """Serve the ROUTER until cancelled, and take subscriptions."""
        while True:
            await asyncio.sleep(0.002)
            try:
                while True:
                    self.pub.recv(zmq.NOBLOCK)
            except zmq.Again:
                pass
            try:
                client, empty, start = self.router.recv_multipart(zmq.NOBLOCK)
            except zmq.Again:
                continue
            assert empty == b""
            self.asked.append(int.from_bytes(start, "big"))
            if not self.is_mute:
                for message in self.sent[self.asked[-1] :]:
                    self.router.send_multipart([client, b"", *message], zmq.DONTWAIT)
                self.router.send_multipart([client, b"", *END], zmq.DONTWAIT)

    def close(self) -> None:
        self.pub.close()
        self.router.close()


def _bind(socket: zmq.Socket[bytes], address: str) -> None:
    """A socket that was closed may take a moment to give its port back."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        try:
            socket.bind(address)
        except zmq.ZMQError as error:
            if error.errno != zmq.EADDRINUSE or time.monotonic() > deadline:
                raise
            time.sleep(0.01)
        else:
            return


@asynccontextmanager
async def answering(*engines: Engine) -> AsyncIterator[None]:
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(engine.answer()) for engine in engines]
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            for engine in engines:
                engine.close()


@pytest.fixture
def context() -> Iterator[Context]:
    context: Context = zmq.Context()
    yield context
    assert all(socket.closed for socket in context._sockets)
    context.term()


class Bench:
    def __init__(self, context: Context) -> None:
        self.index = PrefixIndex(16)
        self.subscriptions = Subscriptions(context, self.index)

    def score(self, holder: Holder = E1) -> int:
        match = self.index.match([BASE], pack(make.prompt()), 0.0).matches.get(holder)
        return match.blocks if match else 0

    def trust(self, holder: Holder = E1) -> Trust:
        return self.index.trust(holder)


@pytest.fixture
async def bench(context: Context) -> AsyncIterator[Bench]:
    bench = Bench(context)
    yield bench
    bench.subscriptions.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Little patience with engines that do not answer."""
    monkeypatch.setattr(replayer, "IDLE_S", 0.1)
    monkeypatch.setattr(replayer, "COOLDOWN_S", 0.3)


async def test_what_was_sent_before_is_replayed_although_the_engines_socket_loses_messages(
    context: Context, bench: Bench
) -> None:
    engine = Engine(context)
    for number in range(6000):
        if number % 2:
            engine.publish(make.removed([number - 1]))
        else:
            engine.publish(make.stored([number], make.prompt(1, number)), b"x" * 600)
    engine.publish(make.stored())
    async with answering(engine):
        bench.subscriptions.sync([engine.source()])
        await until(lambda: bench.score() == 4)
        await until(lambda: not bench.subscriptions.replayer)
        assert engine.asked[0] == 0
        assert bench.index.state(E1).blocks == {"gpu": 4}
        (feed,) = bench.index.feeds()
        assert (feed.stats.replayed, feed.stats.last_seq) == (6001, 6000)
        bench.subscriptions.close()


async def test_a_gap_is_closed_while_live_events_flow(context: Context, bench: Bench) -> None:
    engine = Engine(context)
    async with answering(engine):
        bench.subscriptions.sync([engine.source()])
        await until(lambda: bench.trust() is Trust.EXACT)
        engine.publish(make.stored())
        await until(lambda: bench.score() == 4)
        engine.publish(make.removed(NAMES[2:]), heard=False)
        engine.publish()
        await until(lambda: bench.score() == 2)
        await until(lambda: bench.trust() is Trust.EXACT)
        assert engine.asked == [0, 1]
        assert bench.index.feeds()[0].stats.gaps == 1
        bench.subscriptions.close()


@pytest.mark.parametrize("is_restarted", [False, True], ids=["same process", "another process"])
async def test_after_a_broken_connection_the_replay_tells_which_process_it_is(
    context: Context, bench: Bench, is_restarted: bool
) -> None:
    engine = Engine(context)
    source = engine.source()
    async with answering(engine):
        bench.subscriptions.sync([source])
        await until(lambda: bench.trust() is Trust.EXACT)
        engine.publish(make.stored())
        engine.publish(make.removed(NAMES[3:]))
        await until(lambda: bench.score() == 3)
    await until(lambda: bench.trust() is Trust.STALE)
    again = Engine(context, source.endpoint, source.replay or "")
    if is_restarted:
        again.publish(make.stored(NAMES[:1]))
    else:
        again.sent = engine.sent
    async with answering(again):
        await until(lambda: bench.trust() is Trust.EXACT)
        assert bench.score() == (1 if is_restarted else 3)
        bench.subscriptions.close()


@pytest.mark.usefixtures("quick")
async def test_an_engine_that_never_answers_is_heard_live_and_asked_again_later(
    context: Context, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replayer, "COOLDOWN_S", 1.0)
    engine = Engine(context)
    engine.is_mute = True
    engine.publish(make.stored(), heard=False)
    async with answering(engine):
        bench.subscriptions.sync([engine.source()])
        await until(lambda: engine.asked)
        engine.publish(make.stored([21], make.prompt(1, 640)))
        (feed,) = bench.index.feeds()
        await until(lambda: feed in bench.subscriptions.replayer.cooling)
        assert (engine.asked, feed.stats.replays_failed) == ([0, 0, 0], 1)
        assert (bench.trust(), feed.stats.events) == (Trust.PARTIAL, 1)
        engine.is_mute = False
        await until(lambda: bench.trust() is Trust.EXACT)
        assert bench.score() == 4
        assert not bench.subscriptions.replayer.cooling
        bench.subscriptions.close()


@pytest.mark.usefixtures("quick")
async def test_a_replay_takes_no_longer_than_it_may(
    context: Context, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replayer, "OVERALL_S", 0.0)
    engine = Engine(context)
    engine.is_mute = True
    async with answering(engine):
        bench.subscriptions.sync([engine.source()])
        (feed,) = bench.index.feeds()
        await until(lambda: feed.stats.replays_failed)
        assert len(engine.asked) <= 1
        bench.subscriptions.close()


@pytest.mark.usefixtures("quick")
async def test_a_replay_address_that_cannot_be_used_leaves_the_live_events(
    context: Context, bench: Bench
) -> None:
    engine = Engine(context)
    async with answering(engine):
        source = engine.source()
        bench.subscriptions.sync([Source(E1, source.endpoint, replay="tcp://127.0.0.1:0")])
        (feed,) = bench.index.feeds()
        await until(lambda: feed.stats.replays_failed)
        assert bench.subscriptions.stats.errors[E1.address, "replay"] == 1
        engine.publish(make.stored())
        await until(lambda: bench.score() == 4)
        bench.subscriptions.close()


async def test_only_a_few_are_asked_at_once(
    context: Context, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replayer, "MAX_AT_ONCE", 2)
    engines = [Engine(context) for _ in range(5)]
    for engine in engines:
        engine.is_mute = True
    holders = [Holder(f"e{number}") for number in range(5)]
    async with answering(*engines):
        sources = [e.source(h) for e, h in zip(engines, holders, strict=True)]
        bench.subscriptions.sync(sources)
        await until(lambda: len(bench.subscriptions.replayer) == 2)
        await until(lambda: sum(len(engine.asked) for engine in engines) == 2)
        assert sum(bool(feed.catch_up.wants is not None) for feed in bench.index.feeds()) == 3
        monkeypatch.setattr(replayer, "IDLE_S", 0.05)
        for engine in engines:
            engine.is_mute = False
        await until(lambda: all(bench.trust(holder) is Trust.EXACT for holder in holders))
        bench.subscriptions.close()


async def test_a_long_replay_leaves_the_loop_room(context: Context, bench: Bench) -> None:
    engine = Engine(context)
    for number in range(800):
        engine.publish(*[make.stored([number], make.prompt(1, number))] * 20)
    async with answering(engine):
        bench.subscriptions.sync([engine.source()])
        (feed,) = bench.index.feeds()
        rounds = 0
        while bench.trust() is not Trust.EXACT:
            rounds += 1
            await asyncio.sleep(0)
        assert feed.stats.replayed == 800
        assert rounds > 10
        bench.subscriptions.close()


async def test_an_error_of_ours_ends_one_replay_only(
    context: Context, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replayer, "COOLDOWN_S", 0.3)
    engine = Engine(context)
    engine.publish(make.stored())
    async with answering(engine):
        with monkeypatch.context() as patched:
            patched.setattr(Replay, "receive", lambda *_: 1 / 0)
            bench.subscriptions.sync([engine.source()])
            await until(lambda: bench.subscriptions.replayer.failed)
        await until(lambda: bench.trust() is Trust.EXACT)
        assert bench.score() == 4
        bench.subscriptions.close()


async def test_a_stream_that_goes_away_takes_its_replay_along(
    context: Context, bench: Bench
) -> None:
    engine = Engine(context)
    engine.is_mute = True
    async with answering(engine):
        source = engine.source()
        bench.subscriptions.sync([source])
        await until(lambda: engine.asked)
        bench.subscriptions.sync([])
        before = _open_descriptors()
        for _ in range(100):
            bench.subscriptions.sync([source])
            bench.subscriptions.replayer.look(bench.index.feeds())
            bench.subscriptions.sync([])
        await until(lambda: _open_descriptors() <= before)
        assert len(bench.subscriptions.replayer) == 0
        assert bench.index.feeds() == ()
        bench.subscriptions.close()


@pytest.mark.parametrize("has_topics", [True, False])
async def test_the_simulated_engine_is_understood_in_both_layouts(
    bench: Bench, has_topics: bool
) -> None:
    form = simulated.Form(topic="kv@127.0.0.1:9101@tiny", replay_topic_frame=has_topics)
    engine = simulated.Publisher("127.0.0.1", 0, 0, form)
    for _ in range(1500):
        engine.publish([AllBlocksCleared()])
    try:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(engine.answer_replays())
            bench.subscriptions.sync(
                [
                    Source(
                        E1,
                        f"tcp://127.0.0.1:{engine.port}",
                        base_model="tiny",
                        replay=f"tcp://127.0.0.1:{engine.replay_port}",
                    )
                ]
            )
            await until(lambda: bench.trust() is Trust.EXACT)
            (feed,) = bench.index.feeds()
            assert (feed.stats.replayed, feed.stats.last_seq) == (1500, 1499)
            task.cancel()
    finally:
        bench.subscriptions.close()
        engine.close()


def _open_descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))
