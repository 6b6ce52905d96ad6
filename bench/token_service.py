"""The tokenizer sidecar by itself: what a chat costs it, and how many it answers. IO."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from bench import prompts
from bench.figures import Figure
from bench.sidecar import Exchange, Sidecar, sidecar

MODEL = "tiny"
SHORT_TOKENS = 200
LONG_TOKENS = 2000
"""Beyond what is answered without a worker."""

BUDGET_SHORT_CORE_MS = 0.3

SLOW = "gemma3"
"""The model whose prompts are encoded by the tokenizers library."""


class Size(msgspec.Struct, frozen=True):
    """How much is measured.

    Attributes:
        requests: Short ones of a run.
        long_tokens: Of a prompt that takes the others' time.
    """

    requests: int = 3000
    long_tokens: int = 260_000


async def figures(models: Mapping[str, Path], size: Size) -> list[Figure]:
    """Measure all of it; the last one only where the slow model is installed."""
    measured = await _short_chats(models[MODEL], size)
    measured += [await _rate(models[MODEL], workers, size) for workers in (1, 2)]
    if SLOW in models:
        measured.append(await _beside_long_prompts(models, size))
    return measured


def chats(count: int, seed: int, tokens: int = SHORT_TOKENS) -> list[bytes]:
    """Chat bodies that have nothing in common."""
    return [prompts.chat(MODEL, [prompts.text(tokens, seed + i)]) for i in range(count)]


async def _short_chats(directory: Path, size: Size) -> list[Figure]:
    with sidecar({MODEL: directory}) as running:
        await _spent(running, chats(size.requests, 0))
        rounds = [chats(size.requests, (1 + i) * size.requests) for i in range(3)]
        new = min([await _spent(running, bodies) for bodies in rounds])
        again = min([await _spent(running, bodies) for bodies in rounds])
    return [
        Figure(
            name=f"{SHORT_TOKENS}-token chat, sidecar, {what}",
            value=value,
            unit="core-ms",
            budget=BUDGET_SHORT_CORE_MS,
            note="the whole process: stream, JSON, template, encoding",
        )
        for what, value in (("new", new), ("seen before", again))
    ]


async def _spent(running: Sidecar, bodies: Sequence[bytes]) -> float:
    """Core-ms of the sidecar per request."""
    async with Exchange.open(running.socket) as exchange:
        before = running.cpu_s()
        await exchange.all_of(MODEL, bodies)
        return (running.cpu_s() - before) * 1e3 / len(bodies)


async def _rate(directory: Path, workers: int, size: Size) -> Figure:
    """Requests per second where one client asks for as much as it can."""
    with sidecar({MODEL: directory}, workers) as running:
        async with Exchange.open(running.socket) as exchange:
            await exchange.all_of(MODEL, chats(size.requests // 10, 0, LONG_TOKENS))
            bodies = chats(size.requests, size.requests, LONG_TOKENS)
            before, began = running.cpu_s(), time.perf_counter()
            await exchange.all_of(MODEL, bodies)
            took_s, spent_s = time.perf_counter() - began, running.cpu_s() - before
    return Figure(
        name=f"{LONG_TOKENS}-token chats, {workers} worker{'s' * (workers > 1)}",
        value=len(bodies) / took_s,
        unit="req/s",
        note=f"all new; {spent_s * 1e3 / len(bodies):.2f} core-ms each; the client needs a core",
    )


async def _beside_long_prompts(models: Mapping[str, Path], size: Size) -> Figure:
    """How long short chats take while long prompts are encoded the slow way."""
    with sidecar({MODEL: models[MODEL], SLOW: models[SLOW]}) as running:
        latencies = sorted(await _latencies(running, size))
    return Figure(
        name=f"short chat beside {size.long_tokens // 1000}k-token prompts, p99",
        value=latencies[round(0.99 * (len(latencies) - 1))] * 1e3,
        unit="ms",
        note=f"median {latencies[len(latencies) // 2] * 1e3:.2f} ms, most {latencies[-1] * 1e3:.1f}"
        f" ms; {SLOW}, by the tokenizers library, two at a time",
    )


async def _latencies(running: Sidecar, size: Size) -> list[float]:
    found: list[float] = []
    async with Exchange.open(running.socket) as exchange, asyncio.TaskGroup() as group:
        long = [prompts.chat(SLOW, [prompts.text(size.long_tokens, 50 + i)]) for i in range(4)]
        slow = group.create_task(exchange.all_of(SLOW, long))
        for body in chats(size.requests, 10**6):
            if slow.done():
                break
            began = time.perf_counter()
            await exchange.one(MODEL, body)
            found.append(time.perf_counter() - began)
            await asyncio.sleep(0.002)
    return found
