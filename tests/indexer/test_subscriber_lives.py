"""What a subscriber makes of engines that end, begin anew or are reached again."""

from __future__ import annotations

from functools import partial

from indexer.block import Trust
from indexer.feed import Source
from indexer.hashing import pack
from tests.indexer import make
from tests.indexer.make import BASE, E1, NAMES
from tests.indexer.subscribed import Bench, Context, Publisher, until


async def test_a_late_join_is_partial(context: Context, bench: Bench) -> None:
    with Publisher(context) as engine:
        engine.send(make.stored())
        bench.subscriptions.sync([Source(E1, engine.endpoint)])
        await engine.heard()
        engine.send(make.stored([21], make.prompt(1, 640)))
        await until(lambda: bench.feed().stats.events)
        assert (bench.score(), bench.index.trust(E1)) == (0, Trust.PARTIAL)


async def test_an_engine_that_dies_is_stale_and_its_next_life_starts_empty(
    context: Context, bench: Bench
) -> None:
    with Publisher(context) as engine:
        endpoint = engine.endpoint
        bench.subscriptions.sync([Source(E1, endpoint)])
        await engine.heard()
        engine.send(make.stored())
        engine.send()
        await until(lambda: bench.feed().stats.last_seq == 1)
        assert bench.score() == 4
    await until(lambda: bench.index.trust(E1) is Trust.STALE)
    assert bench.score() == 0
    with Publisher(context, endpoint) as engine:
        await engine.heard()
        assert bench.score() == 0
        engine.send(make.stored(NAMES[:2]))
        await until(lambda: bench.score() == 2)
        assert bench.index.trust(E1) is Trust.EXACT
        assert bench.feed().stats.restarts == 1


async def test_a_broken_connection_to_the_same_engine_heals_with_its_next_event(
    context: Context, bench: Bench
) -> None:
    with Publisher(context) as engine:
        endpoint = engine.endpoint
        bench.subscriptions.sync([Source(E1, endpoint)])
        await engine.heard()
        engine.send(make.stored())
        await until(bench.score)
    await until(lambda: bench.index.trust(E1) is Trust.STALE)
    with Publisher(context, endpoint) as engine:
        await engine.heard()
        engine.seq = 1
        engine.send()
        await until(bench.score)
        assert (bench.score(), bench.index.trust(E1)) == (4, Trust.EXACT)


async def test_the_recorded_restart_is_predicted_when_the_connection_breaks_with_it(
    context: Context, bench: Bench
) -> None:
    frames = list(make.captured("bs16_restart", "frames"))
    wrong, sent = [], 0
    engine = Publisher(context)
    bench.subscriptions.sync([Source(E1, engine.endpoint)])
    await engine.heard()
    for request in make.captured("bs16_restart", "requests"):
        step = request["step"]
        if step == "run2-A":
            engine.__exit__(None, None, None)
            await until(lambda: bench.index.trust(E1) is Trust.STALE)
            engine = Publisher(context, engine.endpoint)
            await engine.heard()
        (tokens,) = request["prompt_token_ids"]
        match = bench.index.match([BASE], pack(tokens), 0.0).matches.get(E1)
        if (match.blocks if match else 0) * 16 != request["cached_tokens"]:
            wrong.append(step)
        for line in frames:
            if line["step"] == step:
                engine.socket.send_multipart(make.captured_frames(line))
                sent += 1
                await until(partial(_has_received, bench, sent))
    engine.__exit__(None, None, None)
    assert wrong == []


def _has_received(bench: Bench, messages: int) -> bool:
    return bench.feed().stats.messages == messages
