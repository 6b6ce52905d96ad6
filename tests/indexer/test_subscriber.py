"""Subscriptions over real ZMQ sockets on loopback."""

from __future__ import annotations

import asyncio
import gc
import os

import msgspec
import pytest
import uvloop
import zmq

from indexer import turns
from indexer.block import Trust
from indexer.feed import Feed, Source
from indexer.hashing import pack
from tests.indexer import make
from tests.indexer.make import BASE, E1, E2, NAMES
from tests.indexer.subscribed import PATIENCE_S, Bench, Context, Publisher, until


async def test_events_reach_the_index(context: Context, bench: Bench) -> None:
    with Publisher(context) as engine:
        bench.subscriptions.sync([Source(E1, engine.endpoint)])
        await engine.heard()
        engine.send(make.stored())
        await until(lambda: bench.score() == 4)
        engine.send(make.removed(NAMES[3:]))
        await until(lambda: bench.score() == 3)
        assert bench.index.trust(E1) is Trust.EXACT


def test_events_reach_the_index_on_uvloop(context: Context) -> None:
    async def live() -> None:
        bench = Bench(context)
        await test_events_reach_the_index(context, bench)
        bench.subscriptions.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(live())


async def test_a_topic_filter_is_a_prefix_and_none_means_all(
    context: Context, bench: Bench
) -> None:
    with Publisher(context) as engine:
        sources = [
            Source(E1, engine.endpoint, topic_filter="kv@", base_model="tiny"),
            Source(E2, engine.endpoint, base_model="tiny"),
        ]
        bench.subscriptions.sync(sources)
        assert {await engine.heard(), await engine.heard()} == {b""}
        engine.send(make.stored(), topic=b"other")
        await until(lambda: bench.score(E2) == 4)
        engine.send(make.stored([21], make.prompt(1, 640)), topic=b"kv@a@tiny")
        await until(lambda: all(feed.stats.messages == 2 for feed in bench.index.feeds()))
        assert bench.score(E1) == 0
        assert bench.index.trust(E1) is Trust.PARTIAL
        assert bench.index.stats().rejected == {"filtered": 1}


async def test_the_same_sources_are_left_alone(context: Context, bench: Bench) -> None:
    with Publisher(context) as engine:
        source = Source(E1, engine.endpoint, base_model="tiny")
        bench.subscriptions.sync([source])
        await engine.heard()
        engine.send(make.stored())
        await until(lambda: bench.score() == 4)
        for wanted in (
            [source],
            [source, source],
            [msgspec.structs.replace(source, base_model=None)],
        ):
            bench.subscriptions.sync(wanted)
        assert (bench.score(), len(bench.subscriptions)) == (4, 1)
        assert bench.subscriptions.stats.opened == 1


async def test_a_base_model_that_becomes_known_applies_what_waited(
    context: Context, bench: Bench
) -> None:
    with Publisher(context) as engine:
        source = Source(E1, engine.endpoint)
        bench.subscriptions.sync([source])
        await engine.heard()
        engine.send(make.stored(), topic=b"")
        await until(lambda: bench.feed().stats.messages)
        assert bench.score() == 0
        bench.subscriptions.sync([msgspec.structs.replace(source, base_model="tiny")])
        assert (bench.score(), bench.subscriptions.stats.opened) == (4, 1)
        bench.subscriptions.sync([msgspec.structs.replace(source, base_model="another")])
        assert (bench.score(), bench.subscriptions.stats.opened) == (0, 2)


async def test_a_changed_source_is_replaced_and_a_gone_one_closed(
    context: Context, bench: Bench
) -> None:
    with Publisher(context) as old, Publisher(context) as new:
        bench.subscriptions.sync([Source(E1, old.endpoint)])
        await old.heard()
        old.send(make.stored())
        await until(lambda: bench.score() == 4)
        bench.subscriptions.sync([Source(E1, new.endpoint)])
        assert (bench.score(), len(bench.subscriptions)) == (0, 1)
        await old.heard(0)
        await new.heard()
        new.send(make.stored(NAMES[:2]))
        await until(lambda: bench.score() == 2)
        bench.subscriptions.sync([])
        assert (bench.score(), len(bench.subscriptions)) == (0, 0)
        assert bench.index.holders() == ()


async def test_nothing_counts_after_removal_under_flood(context: Context, bench: Bench) -> None:
    with Publisher(context) as engine:
        source = Source(E1, engine.endpoint)
        bench.subscriptions.sync([source])
        await engine.heard()
        for _ in range(3000):
            engine.send(make.stored())
        await until(bench.score)
        bench.subscriptions.sync([])
        for _ in range(500):
            engine.send(make.stored())
        assert bench.score() == 0
        await engine.heard(0)
        assert bench.score() == 0
        await until(lambda: bench.index.stats().sizes["blocks"] == 0)
        bench.subscriptions.sync([source])
        assert bench.score() == 0
        await engine.heard()
        engine.send(make.stored(NAMES[:1]))
        await until(lambda: bench.score() == 1)
        assert bench.index.trust(E1) is Trust.PARTIAL


async def test_a_flood_leaves_the_loop_room_and_other_sources_their_turn(
    context: Context, bench: Bench
) -> None:
    with Publisher(context) as loud, Publisher(context) as quiet:
        bench.subscriptions.sync([Source(E1, loud.endpoint), Source(E2, quiet.endpoint)])
        await loud.heard()
        await quiet.heard()
        many = [make.stored(NAMES)] * 50
        for _ in range(400):
            loud.send(*many)
        await until(bench.score)
        quiet.send(make.stored())
        rounds = 0
        while bench.score(E2) == 0:
            rounds += 1
            await asyncio.sleep(0)
        loud_feed = next(f for f in bench.index.feeds() if f.source.holder == E1)
        assert rounds > 0
        assert loud_feed.stats.messages < 400
        await until(lambda: loud_feed.stats.messages == 400)


async def test_a_turn_ends_when_its_time_is_up(
    context: Context, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "BURST_READS", 1_000_000)
    monkeypatch.setattr(turns, "TURN_S", 0.0001)
    with Publisher(context) as engine:
        bench.subscriptions.sync([Source(E1, engine.endpoint)])
        await engine.heard()
        for _ in range(100):
            engine.send(*[make.stored()] * 50)
        most = before = 0
        async with asyncio.timeout(PATIENCE_S):
            while before < 100:
                await asyncio.sleep(0)
                received = bench.feed().stats.messages
                most, before = max(most, received - before), received
        assert most <= 2


async def test_junk_is_counted_and_the_next_message_applied(context: Context, bench: Bench) -> None:
    with Publisher(context) as engine:
        bench.subscriptions.sync([Source(E1, engine.endpoint)])
        await engine.heard()
        for junk in ([b"x"], [b"x", b"y"], [b"x"] * 4, [make.TOPIC, b"\0" * 4, b""]):
            engine.socket.send_multipart(junk)
        engine.socket.send_multipart([make.TOPIC, bytes(8), bytes(50_000_000)])
        engine.send(make.stored())
        await until(bench.score)
        assert bench.index.stats().rejected == {"bad_frames": 3, "bad_sequence": 1, "too_large": 1}


async def test_junk_between_messages_of_one_topic_costs_only_itself(
    context: Context, bench: Bench
) -> None:
    with Publisher(context) as engine:
        bench.subscriptions.sync([Source(E1, engine.endpoint)])
        await engine.heard()
        for name in (21, 22):
            engine.send(make.stored([name], make.prompt(1, 64 * name)))
            for junk in ([b"x"], [make.TOPIC, b"y"], [b"x"] * 4):
                engine.socket.send_multipart(junk)
        engine.send(make.stored())
        await until(bench.score)
        assert bench.index.stats().rejected == {"bad_frames": 6}
        assert bench.index.trust(E1) is Trust.EXACT


async def test_an_error_of_ours_costs_one_message(
    context: Context, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Publisher(context) as engine:
        bench.subscriptions.sync([Source(E1, engine.endpoint)])
        await engine.heard()
        engine.send(make.stored())
        await until(bench.score)
        with monkeypatch.context() as patched:
            patched.setattr(Feed, "receive", lambda *_: 1 / 0)
            engine.send()
            await until(lambda: bench.subscriptions.stats.failed)
        engine.seq = 1
        engine.send(make.removed(NAMES[3:]))
        await until(lambda: bench.score() == 3)
        assert bench.index.trust(E1) is Trust.PARTIAL


@pytest.mark.parametrize(
    "endpoint", ["", "nonsense", "tcp://", "tcp://127.0.0.1", "tcp://127.0.0.1:0",
                 "tcp://127.0.0.1:70000", "tcp://127.0.0.1:http", "warp://127.0.0.1:1"],
)  # fmt: skip
async def test_a_source_that_cannot_be_used_is_named_and_the_others_work(
    context: Context, bench: Bench, endpoint: str
) -> None:
    with Publisher(context) as engine:
        bad = Source(E2, endpoint)
        for _ in range(2):
            bench.subscriptions.sync([bad, Source(E1, engine.endpoint)])
        assert set(bench.subscriptions.unusable) == {bad}
        assert bench.subscriptions.stats.errors == {(E2.address, "connect"): 2}
        await engine.heard()
        engine.send(make.stored())
        await until(bench.score)
        bench.subscriptions.sync([Source(E1, engine.endpoint)])
        assert (bench.subscriptions.unusable, bench.score()) == ({}, 4)
        assert bench.subscriptions.stats.errors == {}


async def test_an_error_of_zmq_while_reading_is_counted_for_its_endpoint(
    context: Context, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise zmq.ZMQError(zmq.ENOTSOCK)

    with Publisher(context) as engine:
        bench.subscriptions.sync([Source(E1, engine.endpoint)])
        await engine.heard()
        with monkeypatch.context() as patched:
            patched.setattr(Feed, "receive", broken)
            engine.send(make.stored())
            await until(lambda: bench.subscriptions.stats.failed)
        assert bench.subscriptions.stats.errors == {(E1.address, "recv"): 1}


async def test_a_port_that_nobody_opened_harms_nothing(context: Context, bench: Bench) -> None:
    with Publisher(context) as gone:
        endpoint = gone.endpoint
    bench.subscriptions.sync([Source(E1, endpoint)])
    assert (len(bench.subscriptions), bench.subscriptions.unusable) == (1, {})


async def test_guesses_expire_and_cleared_holders_are_swept_without_requests(
    context: Context, bench: Bench
) -> None:
    with Publisher(context) as engine:
        bench.index.guess(bench.index.match([BASE], pack(make.prompt()), 0.0), E2, 0.0)
        bench.subscriptions.sync([Source(E1, engine.endpoint)])
        await engine.heard()
        engine.send(make.stored(), make.CLEARED)
        await until(lambda: bench.feed().stats.events == 2)
        await until(lambda: set(bench.index.stats().sizes.values()) == {0})
        assert bench.index.stats().guesses == 0


async def test_many_rounds_of_adding_and_removing_leave_nothing_open(
    context: Context, bench: Bench
) -> None:
    with Publisher(context) as engine:
        source = Source(E1, engine.endpoint)
        bench.subscriptions.sync([source])
        await engine.heard()
        bench.subscriptions.sync([])
        await engine.heard(0)
        before = _open_descriptors()
        for _ in range(100):
            bench.subscriptions.sync([source])
            bench.subscriptions.sync([])
        await until(lambda: _open_descriptors() <= before)
        stats = bench.subscriptions.stats
        assert (stats.opened, stats.closed, len(bench.subscriptions)) == (101, 101, 0)


async def test_a_closed_socket_is_not_watched(context: Context, bench: Bench) -> None:
    with Publisher(context) as engine:
        bench.subscriptions.sync([Source(E1, engine.endpoint)])
        await engine.heard()
        (stream,) = bench.subscriptions._streams.values()
        descriptors = [socket.FD for socket in stream.sockets]
        bench.subscriptions.sync([])
        loop = asyncio.get_running_loop()
        assert not any(loop.remove_reader(descriptor) for descriptor in descriptors)


async def test_closing_ends_everything_and_may_be_repeated(context: Context) -> None:
    bench = Bench(context)
    with Publisher(context) as engine:
        bench.subscriptions.sync([Source(E1, engine.endpoint)])
        await engine.heard()
        bench.subscriptions.close()
        bench.subscriptions.close()
        assert (len(bench.subscriptions), bench.index.feeds()) == (0, ())
        await engine.heard(0)


def _open_descriptors() -> int:
    gc.collect()
    return len(os.listdir("/proc/self/fd"))
