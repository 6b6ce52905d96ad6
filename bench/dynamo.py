"""Warmroute and Dynamo beside each other in one run, each under its own interpreter. IO."""

from __future__ import annotations

import statistics
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import msgspec

from bench.figures import Figure, number
from bench.peers.child import ROOT, Child, Command, started
from bench.peers.engine import BLOCK_SIZE, LAST, Traffic, publisher, traffic
from bench.peers.side import Called, Grown, TakenIn
from bench.report import report

_T = TypeVar("_T")

OURS = Command(Path(sys.executable), "bench.peers.warmroute_side")
DYNAMO = Command(ROOT / ".venv-peers" / "bin" / "python", "bench.peers.dynamo_side")

AHEAD = 1.0
"""Our CPU time over Dynamo's, at most."""
AHEAD_CALL = (128 * 1024, 16, 64)
"""Tokens, tokens per block and endpoints of the call that is to be ahead."""
AHEAD_EVENTS = frozenset({1, 32})
"""Blocks in the events whose stores are to be ahead."""


class Load(NamedTuple):
    blocks_per_event: int
    events: int


class Size(msgspec.Struct, frozen=True, kw_only=True):
    """How much is measured.

    Attributes:
        tokens: Lengths of the prompts, all prefixes of the longest, which comes last.
        block_sizes: Tokens per block.
        endpoints: How many hold the longest prompt, ascending.
        calls: In a batch, the other side being idle.
        batches: Of each side, in turn.
        loads: What an engine publishes.
        runs: Of each load and side, in turn.
        memory_blocks: Blocks of which the size is taken.
        memory_holders: How many hold them all.
        known: Endpoints that our masks have a bit for while memory is measured.
    """

    tokens: Sequence[int] = (8 * 1024, 32 * 1024, 128 * 1024)
    block_sizes: Sequence[int] = (16, 64)
    endpoints: Sequence[int] = (8, 64, 512)
    calls: int = 7
    batches: int = 15
    loads: Sequence[Load] = (Load(1, 30_000), Load(16, 4000), Load(32, 2000), Load(64, 1000))
    runs: int = 5
    memory_blocks: int = 200_000
    memory_holders: Sequence[int] = (1, 8)
    known: int = 64


class Both(NamedTuple):
    """One median of each side."""

    ours: float
    theirs: float

    @property
    def ratio(self) -> float:
        return self.ours / self.theirs

    def told(self, unit: str) -> str:
        return f"{number(self.ours)} {unit}, Dynamo {number(self.theirs)} {unit}"


def figures(size: Size | None = None, theirs: Command = DYNAMO) -> list[Figure]:
    """All ratios, ours over theirs; none, and a line that says why, where Dynamo is missing."""
    if not theirs.python.exists():
        print(f"skipped: there is no {theirs.python}, which `make peers` makes")
        return []
    size = size or Size()
    commands = (OURS, theirs)
    return [*_calls(commands, size), *_events(commands, size), *_memory(commands, size)]


# -- hash and match -----------------------------------------------------------------------------


def _calls(commands: Sequence[Command], size: Size) -> Iterator[Figure]:
    with _sides(commands) as sides:
        for block_size in size.block_sizes:
            for side in sides:
                side.do("index", block_size=block_size, known=0)
            held = 0
            for endpoints in size.endpoints:
                for side in sides:
                    side.do("hold", tokens=size.tokens[-1], first=held, end=endpoints)
                held = endpoints
                for tokens in size.tokens:
                    yield _call(sides, tokens, block_size, endpoints, size)


def _call(
    sides: Sequence[Child], tokens: int, block_size: int, endpoints: int, size: Size
) -> Figure:
    reach = [tokens // block_size] * endpoints
    order = {"tokens": tokens, "calls": size.calls, "reach": reach}
    batches = [[side.ask(Called, "match", **order) for side in sides] for _ in range(size.batches)]
    cpu = medians(batches, lambda called: called.cpu_us)
    wall = medians(batches, lambda called: called.wall_us)
    return Figure(
        name=f"hash + match {tokens // 1024}k tokens, block {block_size}, {endpoints} endpoints",
        value=cpu.ratio,
        unit="x",
        budget=AHEAD if (tokens, block_size, endpoints) == AHEAD_CALL else None,
        baseline="1 (Dynamo, this run)",
        note=f"CPU {cpu.told('us')}; the caller waits {wall.told('us')}",
    )


# -- KV events ----------------------------------------------------------------------------------


def _events(commands: Sequence[Command], size: Size) -> Iterator[Figure]:
    for load in size.loads:
        published = traffic(*load)
        runs = [[run(command, published) for command in commands] for _ in range(size.runs)]
        stored = [[stored for stored, _ in run] for run in runs]
        removed = [[removed for _, removed in run] for run in runs]
        budget = AHEAD if load.blocks_per_event in AHEAD_EVENTS else None
        yield _taken_in("store", stored, load, published, budget)
        yield _taken_in("remove", removed, load, published, None)


def _taken_in(
    what: str,
    runs: Sequence[Sequence[TakenIn]],
    load: Load,
    published: Traffic,
    budget: float | None,
) -> Figure:
    cpu = medians(runs, lambda taken: taken.cpu_s)
    wall = medians(runs, lambda taken: taken.wall_s)
    rate = Both(*(published.blocks / cpu_s for cpu_s in cpu))
    return Figure(
        name=f"{what} over ZMQ, blocks an event: {load.blocks_per_event}",
        value=cpu.ratio,
        unit="x",
        budget=budget,
        baseline="1 (Dynamo, this run)",
        note=f"{rate.told('blocks per CPU second')}; all in after {wall.told('s')}",
    )


def run(command: Command, published: Traffic) -> tuple[TakenIn, TakenIn]:
    """What the stores took, and what the removals. Raises RuntimeError if blocks got lost."""
    with started(command) as side, publisher() as engine:
        side.do("listen", endpoint=engine.endpoint, block_size=BLOCK_SIZE)
        engine.await_subscriber()
        side.tell("take_in", last=LAST, stored=True)
        engine.publish(published.stores)
        stored = side.hear(TakenIn)
        side.tell("take_in", last=LAST, stored=False)
        engine.publish(published.removals)
        removed = side.hear(TakenIn)
    if (stored.blocks, removed.blocks) != (published.blocks, 0):
        raise RuntimeError(
            f"{command.module} held {stored.blocks} of {published.blocks} blocks"
            f" and kept {removed.blocks} that were removed"
        )
    return stored, removed


# -- memory -------------------------------------------------------------------------------------


def _memory(commands: Sequence[Command], size: Size) -> Iterator[Figure]:
    for holders in size.memory_holders:
        grown = Both(*(_grown(command, holders, size) for command in commands))
        yield Figure(
            name=f"memory per block, holders: {holders}",
            value=grown.ratio,
            unit="x",
            baseline="1 (Dynamo, this run)",
            note=grown.told("B"),
        )


def _grown(command: Command, holders: int, size: Size) -> float:
    with started(command) as side:
        grown = side.ask(
            Grown,
            "grow",
            blocks=size.memory_blocks,
            block_size=BLOCK_SIZE,
            first=size.known - holders,
            end=size.known,
        )
    return grown.bytes / size.memory_blocks


# -- both sides ---------------------------------------------------------------------------------


@contextmanager
def _sides(commands: Sequence[Command]) -> Iterator[Sequence[Child]]:
    ours, theirs = commands
    with started(ours) as our_side, started(theirs) as their_side:
        yield our_side, their_side


def medians(runs: Sequence[Sequence[_T]], value: Callable[[_T], float]) -> Both:
    """Over runs of our side and theirs."""
    return Both(*(statistics.median(map(value, side)) for side in zip(*runs, strict=True)))


if __name__ == "__main__":
    sys.exit(report({"dynamo": figures}))
