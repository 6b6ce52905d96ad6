"""Recordings played to a simulated engine core, with the tokens that the real one sampled."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from simulator.blocks import PrefixCache
from simulator.clock import Timing
from simulator.engine import Engine
from simulator.hashing import Adapter, Hasher, Identity
from simulator.types import EngineRequest
from simulator.wire import Event
from tests.simulator.recordings import Asked, RecordedStep, steps

HASHER = Hasher(16)

# The real paths are not in the recordings, so hashes of LoRA blocks differ; their content does not.
ADAPTERS = {
    None: None,
    "sql-lora": Adapter("sql-lora", "sql", 1),
    "chat-lora": Adapter("chat-lora", "chat", 2),
}


class Played(msgspec.Struct):
    """What the simulated engine did in one step of a recording."""

    step: RecordedStep
    cached_tokens: list[int]
    messages: list[tuple[Event, ...]]


def make_engine() -> Engine:
    cache = PrefixCache(num_blocks=129, block_size=16)
    return Engine(cache, HASHER, Timing(), max_model_len=1024, concurrency=256, max_loras=2)


def play(name: str) -> Iterator[Played]:
    """Feed a recording's requests and outputs to a fresh engine."""
    engine = make_engine()
    for step in steps(name):
        if step.name == "run2-A":
            engine = make_engine()
        if not step.asked:
            assert engine.reset()
        yield play_step(engine, step)


def play_step(engine: Engine, step: RecordedStep) -> Played:
    queue = [make_request(str(number), asked) for number, asked in enumerate(step.asked)]
    arrivals = iter(step.arrivals)
    cached: dict[str, int] = {}
    messages = []
    while True:
        for _ in range(next(arrivals, 0)):
            engine.add(queue.pop(0), now_s=0)
        if engine.schedule(now_s=0) is None:
            break
        result = engine.complete(now_s=0)
        cached |= {output.request_id: output.cached_tokens for output in result.outputs}
        messages += [result.events] if result.events else []
    per_request = list(cached.values()) if step.concurrent else list(cached.values())[-1:]
    return Played(step, per_request, messages)


def make_request(request_id: str, asked: Asked) -> EngineRequest:
    identity = Identity(ADAPTERS[asked.lora], asked.cache_salt)
    return EngineRequest(
        request_id=request_id,
        prompt_token_ids=asked.prompt,
        digests=HASHER.chain(asked.prompt, identity),
        max_tokens=len(asked.output),
        answer=iter(asked.output),
        identity=identity,
        session_id=asked.session_id,
        skips_lookup=asked.skips_lookup,
        reports_reused=asked.reports_reused,
    )
