"""KV events end to end: a real ZMQ publisher to blocks in the index. IO."""

from __future__ import annotations

import asyncio
import multiprocessing
import random
import statistics
import sys
import time
from multiprocessing.connection import Connection
from typing import NamedTuple

import msgspec
import uvloop
import zmq

from bench.figures import Figure
from bench.report import report
from indexer.block import Holder
from indexer.feed import Source
from indexer.prefix_index import PrefixIndex
from indexer.subscriber import Subscriptions

BLOCK_SIZE = 16
SEQUENCE_EVENTS = 8
"""Events until a new sequence starts at the root."""
RUNS = 5
HOLDER = Holder("127.0.0.1:8000")


class Load(NamedTuple):
    blocks_per_event: int
    events_per_message: int
    messages: int
    baseline_events: str
    """What Dynamo's SelectionService is published to take in, in events per second."""
    baseline_blocks: str


LOADS = (
    Load(1, 1, 30_000, "94-112k", "94-112k"),
    Load(1, 8, 4_000, "94-112k", "94-112k"),
    Load(16, 1, 4_000, "", ""),
    Load(32, 1, 2_000, "21-22k", "670-710k"),
    Load(64, 1, 1_000, "", ""),
)


def figures() -> list[Figure]:
    """Measure all of it, per CPU second. Dynamo is not run here, so no figure has a budget."""
    return [figure for load in LOADS for figure in _measure(load)]


def _measure(load: Load) -> list[Figure]:
    events = load.events_per_message * load.messages / statistics.median(map(_run, [load] * RUNS))
    what = f"{load.blocks_per_event} blocks an event, {load.events_per_message} a message"
    blocks = events * load.blocks_per_event
    return [
        Figure(name=what, value=events, unit="events/s", baseline=_dynamo(load.baseline_events)),
        Figure(name=what, value=blocks, unit="blocks/s", baseline=_dynamo(load.baseline_blocks)),
    ]


def _dynamo(figure: str) -> str:
    return f"{figure} (Dynamo, run)" if figure else ""


def _run(load: Load) -> float:
    """CPU seconds that this process took for all of a load's messages."""
    ours, theirs = multiprocessing.Pipe()
    publisher = multiprocessing.get_context("spawn").Process(target=_publish, args=(theirs, load))
    publisher.start()
    try:
        return uvloop.run(_ingest(ours, load))
    finally:
        ours.send(None)
        publisher.join()


async def _ingest(engine: Connection, load: Load) -> float:
    endpoint: str = engine.recv()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    index = PrefixIndex(BLOCK_SIZE)
    subscriptions = Subscriptions(context, index)
    subscriptions.sync([Source(HOLDER, endpoint)])
    (feed,) = index.feeds()
    engine.send("subscribed")
    while feed.stats.messages == 0:  # noqa: ASYNC110 - polling costs less than a wake-up per event
        await asyncio.sleep(0)
    began = time.process_time()
    while feed.stats.messages < load.messages:  # noqa: ASYNC110 - as above
        await asyncio.sleep(0.002)
    cpu_s = time.process_time() - began
    stored = sum(index.state(HOLDER).blocks.values())
    expected = load.blocks_per_event * load.events_per_message * load.messages
    subscriptions.close()
    context.term()
    if stored != expected or feed.rejected:
        raise RuntimeError(f"{stored} of {expected} blocks stored, rejected: {feed.rejected}")
    return cpu_s


def _publish(bench: Connection, load: Load) -> None:
    """An engine: binds, waits for its subscriber, sends everything as fast as it can."""
    messages = _messages(load)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    with context.socket(zmq.XPUB) as socket:
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.bind("tcp://127.0.0.1:*")
        bench.send(socket.getsockopt_string(zmq.LAST_ENDPOINT))
        bench.recv()
        socket.recv()
        for seq, payload in enumerate(messages):
            socket.send_multipart([b"kv@127.0.0.1:8000@bench", seq.to_bytes(8, "big"), payload])
        bench.recv()
    context.term()


def _messages(load: Load) -> list[bytes]:
    """Stores as vLLM 0.32 spells them."""
    rng = random.Random(7)
    count = load.blocks_per_event
    messages, parent, number = [], None, 0
    for _ in range(load.messages):
        events = []
        for _ in range(load.events_per_message):
            parent = parent if number % SEQUENCE_EVENTS else None
            names = [rng.getrandbits(64) for _ in range(count)]
            events.append(_stored(names, parent, rng))
            parent, number = names[-1], number + 1
        messages.append(msgspec.msgpack.encode([time.time(), events, 0]))
    return messages


def _stored(names: list[int], parent: int | None, rng: random.Random) -> dict[str, object]:
    return {
        "type": "BlockStored",
        "block_hashes": names,
        "parent_block_hash": parent,
        "token_ids": [rng.randrange(150_000) for _ in range(BLOCK_SIZE * len(names))],
        "block_size": BLOCK_SIZE,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "extra_keys": [None] * len(names),
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
    }


if __name__ == "__main__":
    sys.exit(report({"kv_events": figures}))
