"""One side of a comparison, in a process of its own: takes orders and answers with figures. IO.

Orders and answers are lines of JSON on standard input and output. Nothing but the standard library
is imported here, because a peer's interpreter has none of our packages.
"""

from __future__ import annotations

import asyncio
import gc
import json
import resource
import statistics
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Protocol

EVENT_BLOCKS = 64
"""Blocks in one event where an index is filled without a socket."""
POLL_S = 0.01
ALL_IN_S = 60.0


class Index(Protocol):
    """An index, called from Python as its users call it."""

    def hold(self, tokens: Sequence[int], endpoints: range) -> None:
        """Each of the endpoints stores all full blocks, `EVENT_BLOCKS` at a time."""

    def call(self, tokens: Sequence[int]) -> Callable[[], object]:
        """Hash and match a prompt: from token ids as this side takes them to what can be read."""

    def reach(self, tokens: Sequence[int]) -> Sequence[int]:
        """The leading blocks of a prompt that each endpoint holds; those without any left out."""


class Stream(Protocol):
    """An index that is subscribed to an engine's KV events."""

    async def listen(self, endpoint: str, block_size: int) -> None:
        """Subscribe."""

    async def has(self, tokens: Sequence[int]) -> bool:
        """Whether the engine is known to hold the first block of these tokens."""

    async def blocks(self) -> int:
        """How many blocks the engine is known to hold."""


@dataclass(frozen=True)
class Called:
    """
    Attributes:
        cpu_us: CPU time of one call, all threads of the process.
        wall_us: What the caller waits, median.
    """

    cpu_us: float
    wall_us: float


@dataclass(frozen=True)
class Grown:
    """
    Attributes:
        bytes: By how much the process grew.
    """

    bytes: int


@dataclass(frozen=True)
class TakenIn:
    """
    Attributes:
        cpu_s: CPU time of all threads until everything was applied.
        wall_s: From before the first message was sent.
        blocks: Held then.
    """

    cpu_s: float
    wall_s: float
    blocks: int


def prompt(count: int) -> list[int]:
    """Token ids; both sides are asked about the same."""
    return [(at * 2654435761) % 150_000 for at in range(count)]


class Side:
    """
    Args:
        index: Makes an index, given tokens per block and the number of endpoints that are known
            before the first of them stores anything.
        stream: Makes an index that can subscribe.
    """

    def __init__(self, index: Callable[[int, int], Index], stream: Callable[[], Stream]) -> None:
        self._new_index = index
        self._new_stream = stream
        self._index: Index | None = None
        self._stream: Stream | None = None
        self._orders: Mapping[str, Callable[..., Awaitable[object]]] = {
            "index": self._open,
            "hold": self._hold,
            "match": self._match,
            "grow": self._grow,
            "listen": self._listen,
            "take_in": self._take_in,
        }

    async def serve(self) -> None:
        """Until there are no more orders. Nothing else is to run while one is awaited."""
        for line in iter(sys.stdin.readline, ""):
            order: dict[str, Any] = json.loads(line)
            answer = await self._orders[order.pop("order")](**order)
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()

    async def _open(self, block_size: int, known: int) -> None:
        self._index = self._new_index(block_size, known)

    async def _hold(self, tokens: int, first: int, end: int) -> None:
        self._opened.hold(prompt(tokens), range(first, end))

    async def _match(self, tokens: int, calls: int, reach: Sequence[int]) -> Mapping[str, object]:
        """Raises ValueError if the endpoints do not hold what the caller says."""
        ids = prompt(tokens)
        if (reached := list(self._opened.reach(ids))) != list(reach):
            raise ValueError(f"the endpoints reach {reached}, not {reach}")
        call = self._opened.call(ids)
        call()
        walls_ns = []
        cpu_ns = time.process_time_ns()
        for _ in range(calls):
            began_ns = time.perf_counter_ns()
            call()
            walls_ns.append(time.perf_counter_ns() - began_ns)
        # Over all calls, since a thread of the index may still be busy when a call returns.
        cpu_ns = time.process_time_ns() - cpu_ns
        return asdict(Called(cpu_ns / calls / 1e3, statistics.median(walls_ns) / 1e3))

    async def _grow(self, blocks: int, block_size: int, first: int, end: int) -> dict[str, object]:
        index = self._new_index(block_size, end)
        before = _resident_bytes()
        index.hold(range(blocks * block_size), range(first, end))
        return asdict(Grown(_resident_bytes() - before))

    async def _listen(self, endpoint: str, block_size: int) -> None:
        self._stream = self._new_stream()
        await self._stream.listen(endpoint, block_size)

    async def _take_in(self, last: Sequence[int], stored: bool) -> Mapping[str, object]:
        """Wait until the block of `last` is there, or is gone; then everything before it is in.

        Raises TimeoutError.
        """
        assert self._stream is not None
        wall_s, cpu_s = time.perf_counter(), time.process_time()
        async with asyncio.timeout(ALL_IN_S):
            while await self._stream.has(last) is not stored:  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(POLL_S)
        wall_s, cpu_s = time.perf_counter() - wall_s, time.process_time() - cpu_s
        return asdict(TakenIn(cpu_s, wall_s, await self._stream.blocks()))

    @property
    def _opened(self) -> Index:
        assert self._index is not None
        return self._index


def _resident_bytes() -> int:
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()
