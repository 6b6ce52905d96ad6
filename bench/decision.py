"""Decision: filter, score and pick with the built-in profile. IO."""

from __future__ import annotations

import random
import statistics
import sys
import time
from collections.abc import Callable, Sequence

from bench.figures import Figure
from bench.report import report
from router.config.builtin import BUILTIN
from router.config.load import load
from router.pool.endpoint import Endpoint, EngineMetrics
from router.producers.facts import Facts, HeldPrefix, InFlight, PrefixMatch
from router.request.types import Kind, Request

ENDPOINTS = (5, 25, 100, 500)
PROMPT_BLOCKS = 512
"""A prompt of 8k tokens at block 16."""
RUNS = 31
RUN_S = 0.02
"""Long enough for the clock of CPU time, which is coarse on some machines."""


def figures(counts: Sequence[int] = ENDPOINTS, runs: int = RUNS) -> list[Figure]:
    """Measure each size of pool."""
    return [
        Figure(
            name=f"decision, {count} endpoints",
            value=_cpu_us(_decision(count), runs),
            unit="us",
        )
        for count in counts
    ]


def _decision(count: int) -> Callable[[], object]:
    """One decision over endpoints of which every other one holds a part of the prompt."""
    config = load(BUILTIN)
    rng = random.Random(1)
    endpoints = [endpoint(number, rng) for number in range(count)]
    facts = Facts(rng, now=1.0)
    held = {e.address: prefix(rng.randrange(PROMPT_BLOCKS)) for e in endpoints[::2]}
    facts.put(PrefixMatch(PROMPT_BLOCKS, 16, held), "precise-prefix-cache-producer")
    requests = {e.address: rng.randrange(1, 40) for e in endpoints}
    facts.put(InFlight(requests), "inflight-load-producer")
    request = Request(id="bench", kind=Kind.CHAT, model="bench")
    return lambda: config.handler.decide(request, config.profiles, endpoints, facts, rng)


def endpoint(number: int, rng: random.Random) -> Endpoint:
    """One with figures of load."""
    metrics = EngineMetrics(
        waiting=rng.randrange(10), running=rng.randrange(100), kv_usage=rng.random()
    )
    address = f"10.0.{number // 250}.{number % 250}:8000"
    return Endpoint(name=f"engine-{number}", address=address, metrics=metrics)


def prefix(blocks: int) -> HeldPrefix:
    """So many leading blocks in GPU memory."""
    return HeldPrefix(blocks, {"gpu": blocks}, blocks, float(blocks))


def _cpu_us(work: Callable[[], object], runs: int) -> float:
    """Median CPU microseconds of one call."""
    repeats = _repeats(work)
    times = []
    for _ in range(runs):
        began = time.process_time_ns()
        for _ in range(repeats):
            work()
        times.append((time.process_time_ns() - began) / 1000 / repeats)
    return statistics.median(times)


def _repeats(work: Callable[[], object]) -> int:
    """How often a call fits into one run; the first calls also warm up."""
    began, repeats = time.process_time(), 0
    while time.process_time() - began < RUN_S:
        work()
        repeats += 1
    return repeats


if __name__ == "__main__":
    sys.exit(report({"decision": figures}))
