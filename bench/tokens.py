"""Token ids: encoding against the tokenizers library, rendering, the sidecar's cost. IO."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import msgspec
import uvloop
from tokenizers import Tokenizer

from bench import prompts
from bench.figures import Figure
from bench.report import report
from bench.sidecar import Exchange, Sidecar, sidecar
from simulator.config import BUNDLED_MODEL_DIR
from tests.support import npm_models
from tokenizer_sidecar.encode import Encoder
from tokenizer_sidecar.render import Renderer

TEXT_CHARS = 400_000
NEW_SHARE = 0.05
TURNS = 200
SHORT_TOKENS = 200

COLD_RATIO = 10
WARM_RATIO = 100
BUDGET_SHORT_CORE_MS = 0.3

SLOW = "gemma3"
"""The model whose prompts are encoded by the tokenizers library."""


class Size(msgspec.Struct, frozen=True):
    """How much is measured."""

    models: Sequence[str] = ("tiny", *npm_models.NAMES)
    chars: int = TEXT_CHARS
    rounds: int = 5
    requests: int = 3000


def figures(size: Size = Size()) -> list[Figure]:  # noqa: B008 - frozen
    """Measure all of it, for the models that are installed."""
    found = dict(_directories(size.models))
    measured: list[Figure] = []
    for name, directory in found.items():
        measured += _encoding(name, directory, size)
    for name in ("qwen3", "tiny"):
        if name in found:
            measured += _rendering(name, found[name], size)
    return measured + uvloop.run(_services(found, size))


async def _services(found: Mapping[str, Path], size: Size) -> list[Figure]:
    measured = await _short_prompts(found["tiny"], size)
    if SLOW in found:
        measured.append(await _beside_long_prompts(found, size))
    return measured


def _directories(names: Sequence[str]) -> Iterator[tuple[str, Path]]:
    yield "tiny", BUNDLED_MODEL_DIR
    for name in names:
        directory = npm_models.installed(name) if name in npm_models.NAMES else None
        if directory is not None:
            yield name, directory


def _encoding(name: str, directory: Path, size: Size) -> list[Figure]:
    content = (directory / "tokenizer.json").read_bytes()
    library = Tokenizer.from_buffer(content)
    began = time.process_time()
    encoder = Encoder(Tokenizer.from_buffer(content), content)
    load_s = time.process_time() - began
    texts = [_text(size.chars, i) for i in range(size.rounds)]
    shared = texts[0][: round(size.chars * (1 - NEW_SHARE))]
    ended = [shared + _text(size.chars - len(shared), 100 + i) for i in range(size.rounds)]

    def encode(text: str) -> bytes:
        return encoder.encode_packed(text, add_special_tokens=False)

    by_library = _ms(lambda i: library.encode(texts[i], add_special_tokens=False), size.rounds)
    cold = _ms(lambda i: encode(texts[i]), size.rounds)
    again = _ms(lambda i: encode(texts[i]), size.rounds)
    last = _ms(lambda i: encode(ended[i]), size.rounds)
    tokens = len(encode(texts[0])) // 4
    note = (
        f"{encoder.method}; {tokens} tokens, library {by_library:.0f} ms; loaded in {load_s:.1f} s"
    )
    ratios: Mapping[str, tuple[float, int | None]] = {
        "first time": (cold, COLD_RATIO if encoder.method.fast else None),
        "again": (again, WARM_RATIO),
        "last 5 % new": (last, WARM_RATIO if encoder.method.fast else None),
    }
    return [
        Figure(
            name=f"{name}, {size.chars // 1000} KB, {what}",
            value=by_library / took,
            unit="x",
            budget=budget,
            floor=True,
            baseline="1 (tokenizers, same run)",
            note=f"{took:.2f} ms; {note}",
        )
        for what, (took, budget) in ratios.items()
    ]


def _rendering(name: str, directory: Path, size: Size) -> list[Figure]:
    renderer = Renderer.load(directory)
    each = size.chars // TURNS
    contents = [_text(each, i) for i in range(TURNS - 1)]
    body = msgspec.json.decode(prompts.chat(name, contents))
    renderer.packed_chat(body)
    return [
        Figure(
            name=f"{name}, {TURNS} turns, render",
            value=_ms(lambda _: renderer.prompt(body), size.rounds),
            unit="ms",
            note=f"{size.chars // 1000} KB",
        ),
        Figure(
            name=f"{name}, {TURNS} turns, render and find again",
            value=_ms(lambda _: renderer.packed_chat(body), size.rounds),
            unit="ms",
        ),
    ]


async def _short_prompts(directory: Path, size: Size) -> list[Figure]:
    with sidecar({"tiny": directory}) as running:
        await _spent(running, _short(size.requests, 0))
        bodies = _short(size.requests, size.requests)
        spent = [await _spent(running, bodies) for _ in "12"]
    return [
        Figure(
            name=f"{SHORT_TOKENS}-token chat, sidecar, {what}",
            value=value,
            unit="core-ms",
            budget=BUDGET_SHORT_CORE_MS,
            note="the whole process: stream, JSON, template, encoding",
        )
        for what, value in zip(("new", "seen before"), spent, strict=True)
    ]


def _short(count: int, seed: int) -> list[bytes]:
    return [prompts.chat("tiny", [prompts.text(SHORT_TOKENS, seed + i)]) for i in range(count)]


async def _spent(running: Sidecar, bodies: Sequence[bytes]) -> float:
    """Core-ms of the sidecar per request."""
    async with Exchange.open(running.socket) as exchange:
        before = running.cpu_s()
        await exchange.all_of("tiny", bodies)
        return (running.cpu_s() - before) * 1e3 / len(bodies)


async def _beside_long_prompts(directories: Mapping[str, Path], size: Size) -> Figure:
    """How long short chats take while prompts of 260k tokens are encoded the slow way."""
    with sidecar({"tiny": directories["tiny"], SLOW: directories[SLOW]}) as running:
        latencies = await _latencies(running, size)
    latencies.sort()
    return Figure(
        name="short chat beside 260k-token prompts, p99",
        value=latencies[round(0.99 * (len(latencies) - 1))] * 1e3,
        unit="ms",
        note=f"median {latencies[len(latencies) // 2] * 1e3:.2f} ms, most {latencies[-1] * 1e3:.1f}"
        f" ms; {SLOW}, by the tokenizers library, two at a time",
    )


async def _latencies(running: Sidecar, size: Size) -> list[float]:
    found: list[float] = []
    async with Exchange.open(running.socket) as exchange, asyncio.TaskGroup() as group:
        long = [prompts.chat(SLOW, [_text(size.chars * 5 // 2, 50 + i)]) for i in range(4)]
        slow = group.create_task(exchange.all_of(SLOW, long))
        for body in _short(size.requests, 10**6):
            if slow.done():
                break
            began = time.perf_counter()
            await exchange.one("tiny", body)
            found.append(time.perf_counter() - began)
            await asyncio.sleep(0.002)
    return found


def _text(chars: int, seed: int) -> str:
    return prompts.text(round(chars / prompts.BYTES_PER_TOKEN) + 1, seed)[:chars]


def _ms(work: Callable[[int], object], rounds: int) -> float:
    """Least CPU milliseconds of one call: on a shared machine noise only ever adds."""
    times = []
    for i in range(rounds):
        began = time.process_time_ns()
        work(i)
        times.append((time.process_time_ns() - began) / 1e6)
    return min(times)


if __name__ == "__main__":
    sys.exit(report({"tokens": figures}))
