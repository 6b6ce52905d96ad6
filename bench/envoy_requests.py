"""200-token prompts through real Envoy: CPU per request, requests per router core, latency. IO."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from itertools import count, islice

import msgspec

from bench import prompts
from bench.engine import MODEL
from bench.figures import Figure
from bench.load import Load, run
from bench.measure import Spent, least, spend
from bench.report import report
from bench.stack import Stack, stack
from router.extproc.headers import DESTINATION

ENGINES = 4
TOKENS = 200
CHAT_OVERHEAD_TOKENS = 10
"""What the chat template adds."""

CONNECTIONS = 32
BUDGET_CORE_MS = 0.8
FLOOR_RATE = 1200.0
"""Per core of the router; latency is measured at half of it, or of what this machine can do."""
BUDGET_ADDED_MS = 5.0


class Size(msgspec.Struct, frozen=True):
    """How much is measured.

    Attributes:
        warm_up: Requests before anything is measured.
        requests: Per run.
        rounds: Runs of each kind; the least disturbed one counts.
    """

    warm_up: int = 500
    requests: int = 2000
    rounds: int = 3


def figures(size: Size = Size()) -> list[Figure]:  # noqa: B008 - frozen
    """Measure all of it."""
    with stack(ENGINES) as running:
        bodies = map(completion, count())
        spend(running, _load(running, prompts.COMPLETIONS, list(islice(bodies, size.warm_up))))
        by_path = {
            path: least(
                [
                    spend(running, _load(running, path, list(islice(source, size.requests))))
                    for _ in range(size.rounds)
                ]
            )
            for path, source in ((prompts.COMPLETIONS, bodies), (prompts.CHAT, map(chat, count())))
        }
        completions = by_path[prompts.COMPLETIONS]
        rate = min(FLOOR_RATE, completions.outcome.rate) / 2
        added = _added_ms(running, rate, bodies, size)
    return [
        _cost("completion", completions),
        _cost("chat", by_path[prompts.CHAT]),
        Figure(
            name="200-token completions per router core",
            value=completions.rate_per_router_core,
            unit="req/s",
            budget=FLOOR_RATE,
            floor=True,
            note=f"{completions.outcome.rate:.0f} req/s on this machine, all processes on it",
        ),
        *_latency(added, rate),
    ]


def completion(seed: int) -> bytes:
    """A completion body that shares no block with another seed's."""
    return prompts.completion(MODEL, TOKENS, seed)


def chat(seed: int) -> bytes:
    """A chat body of one message; only the template's first tokens are shared."""
    return prompts.chat(MODEL, [prompts.text(TOKENS - CHAT_OVERHEAD_TOKENS, seed)])


def _load(running: Stack, path: str, bodies: Sequence[bytes], rate: float | None = None) -> Load:
    return Load(
        host=running.host,
        port=running.port,
        path=path,
        bodies=bodies,
        connections=CONNECTIONS,
        rate=rate,
    )


def _cost(kind: str, spent: Spent) -> Figure:
    return Figure(
        name=f"200-token {kind}",
        value=spent.ours,
        unit="core-ms",
        budget=BUDGET_CORE_MS,
        baseline="6.1-9.9 (llm-d, published)",
        note=spent.shares(),
    )


def _added_ms(
    running: Stack, rate: float, bodies: Iterator[bytes], size: Size
) -> dict[float, tuple[float, float]]:
    """Quantile -> latency without and with the router, each in its least disturbed run."""
    without, through = [], []
    for _ in range(size.rounds):
        load = _load(running, prompts.COMPLETIONS, list(islice(bodies, size.requests)), rate)
        bare = msgspec.structs.replace(
            load, port=running.bare_port, headers={DESTINATION: running.engines[0]}
        )
        without.append(run(bare))
        through.append(run(load))
    return {
        share: (
            min(outcome.quantile_ms(share) for outcome in without),
            min(outcome.quantile_ms(share) for outcome in through),
        )
        for share in (0.5, 0.95)
    }


def _latency(added: dict[float, tuple[float, float]], rate: float) -> Iterator[Figure]:
    for share, (without, through) in added.items():
        yield Figure(
            name=f"latency added by ext_proc, p{share * 100:.0f}",
            value=through - without,
            unit="ms",
            budget=BUDGET_ADDED_MS if share == 0.95 else None,
            note=f"{rate:.0f} req/s at random moments: {without:.2f} without, {through:.2f} with",
        )


if __name__ == "__main__":
    sys.exit(report({"envoy_requests": figures}))
