"""100k-token chat prompts through real Envoy, 100 endpoints: CPU when warm and when cold. IO."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from itertools import takewhile

import msgspec

from bench import prompts
from bench.engine import MODEL
from bench.figures import Figure
from bench.load import Load
from bench.measure import Spent, least, spend
from bench.report import report
from bench.stack import Stack, StackError, await_true, stack
from simulator.config import BUNDLED_MODEL_DIR
from tokenizer_sidecar.render import Renderer

ENGINES = 100
TOKENS = 100_000
SHARED = 0.95
TURNS = 20
"""Messages of the shared part; the last message is the request's own."""

CONNECTIONS = 2
IDLE_S = 2.0
BUDGET_WARM_CORE_MS = 8.0
BUDGET_COLD_CORE_MS = 60.0


class Size(msgspec.Struct, frozen=True):
    """How much is measured: endpoints, and requests per run."""

    engines: int = ENGINES
    tokens: int = TOKENS
    warm: int = 40
    cold: int = 10
    rounds: int = 3


def figures(size: Size = Size()) -> list[Figure]:  # noqa: B008 - frozen
    """Measure all of it."""
    with stack(size.engines) as running:
        seeds = iter(range(10**9))

        def cold_run(count: int) -> Spent:
            return _spend(running, [cold(size.tokens, next(seeds)) for _ in range(count)])

        def warm_run(count: int) -> Spent:
            return _spend(running, [warm(size.tokens, next(seeds)) for _ in range(count)])

        cold_run(2)
        colds = least([cold_run(size.cold) for _ in range(size.rounds)])
        _announce(running, size.tokens)
        idle = _idle_cores(running)
        warm_run(2)
        warms = least([warm_run(size.warm) for _ in range(size.rounds)])
    return [
        Figure(
            name=f"100k-token chat, 95 % shared, warm, {size.engines} endpoints",
            value=warms.ours,
            unit="core-ms",
            budget=BUDGET_WARM_CORE_MS,
            baseline="355-470 (llm-d 0.9, published)",
            note=f"every endpoint holds the shared part; {_note(warms, idle)}",
        ),
        Figure(
            name=f"100k-token chat, cold, {size.engines} endpoints",
            value=colds.ours,
            unit="core-ms",
            budget=BUDGET_COLD_CORE_MS,
            baseline="350-1,000 (Hugging Face encoding alone)",
            note=f"no prompt like another; {_note(colds, idle)}",
        ),
    ]


def warm(tokens: int, seed: int) -> bytes:
    """A long conversation, the same for every seed, and a last message of the seed's own."""
    each = round(tokens * SHARED / TURNS)
    history = [prompts.text(each, -1 - turn) for turn in range(TURNS)]
    return prompts.chat(MODEL, [*history, prompts.text(round(tokens * (1 - SHARED)), seed)])


def cold(tokens: int, seed: int) -> bytes:
    """A conversation that no other seed has seen."""
    each = round(tokens / (TURNS + 1))
    return prompts.chat(MODEL, [prompts.text(each, seed * 1000 + i) for i in range(TURNS + 1)])


def _spend(running: Stack, bodies: Sequence[bytes]) -> Spent:
    return spend(
        running,
        Load(
            host=running.host,
            port=running.port,
            path=prompts.CHAT,
            bodies=bodies,
            connections=CONNECTIONS,
        ),
    )


def _idle_cores(running: Stack) -> float:
    """What router and sidecar use while nothing is asked."""
    usage = running.usage()
    time.sleep(IDLE_S)
    used = usage.used_s()
    return (used["router"] + used["sidecar"]) / IDLE_S


def _note(spent: Spent, idle_cores: float) -> str:
    outcome = spent.outcome
    idle_ms = idle_cores * outcome.seconds * 1e3 / len(outcome.latencies_s)
    return f"{spent.shares()}; {idle_ms:.1f} of it is the idle cost of the time it took"


def _announce(running: Stack, tokens: int) -> None:
    """Let every endpoint hold what warm prompts share, and wait until the router knows."""
    renderer = Renderer.load(BUNDLED_MODEL_DIR)
    example, other = warm(tokens, -100), warm(tokens, -101)
    ids, other_ids = (renderer.chat(msgspec.json.decode(body)) for body in (example, other))
    both = zip(ids, other_ids, strict=False)
    shared = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], both))
    if shared < 0.9 * len(ids):
        raise StackError(f"warm prompts share only {shared} of {len(ids)} tokens")
    running.announcer.stored(ids[:shared])

    def known() -> bool:
        held = running.match(example)["endpoints"]
        return len(held) == len(running.engines) and all(
            each["matched_tokens"] > shared - 2 * 16 for each in held.values()
        )

    await_true(known, "the router did not take in the engines' events")


if __name__ == "__main__":
    sys.exit(report({"long_prompts": figures}))
