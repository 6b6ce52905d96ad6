"""Index: hashing and matching a prompt, and memory per block. IO."""

from __future__ import annotations

import gc
import multiprocessing
import resource
import statistics
import sys
import time
from collections.abc import Callable

from bench.figures import Figure
from bench.report import report
from indexer.block import Holder, Identity
from indexer.hashing import TOKEN_BYTES, block_hashes, pack, root
from indexer.index import BlockIndex

BLOCK_SIZE = 16
HOLDERS = 64
SHORT_TOKENS = 8 * 1024
LONG_TOKENS = 128 * 1024
RUNS = 41
BUDGET_US = 130
MEMORY_BLOCKS = 200_000
IDENTITY = Identity("bench")


def figures() -> list[Figure]:
    """Measure all of it."""
    return [*_times(SHORT_TOKENS), *_times(LONG_TOKENS), *_memory()]


def _times(count: int) -> list[Figure]:
    """All holders have the whole prompt: the walk goes to its end."""
    tokens = pack((at * 2654435761) % 150_000 for at in range(count))
    parent = root(IDENTITY)
    hashes = block_hashes(tokens, BLOCK_SIZE, parent)
    index = BlockIndex(BLOCK_SIZE)
    for number in range(HOLDERS):
        index.store(Holder(f"10.0.0.{number}:8000"), "gpu", hashes, hashes)
    assert len(index.match(hashes)) == HOLDERS
    index.match(hashes)
    hashing = _cpu_us(lambda: block_hashes(tokens, BLOCK_SIZE, parent))
    matching = _cpu_us(lambda: index.match(hashes))
    both = _cpu_us(lambda: index.match(block_hashes(tokens, BLOCK_SIZE, root(IDENTITY))))
    size = f"{count // 1024}k tokens, {HOLDERS} holders"
    short = count == SHORT_TOKENS
    dynamo = ("95", "31-67", "126-162") if short else ("1,560", "191-248", "1,751-1,808")
    # The long prompt is to be ahead of Dynamo in one run of both, which this is not.
    return [
        Figure(
            name=f"hash {size}", value=hashing, unit="us", baseline=f"{dynamo[0]} (Dynamo, run)"
        ),
        Figure(
            name=f"match {size}", value=matching, unit="us", baseline=f"{dynamo[1]} (Dynamo, run)"
        ),
        Figure(
            name=f"hash + match {size}",
            value=both,
            unit="us",
            budget=BUDGET_US if short else None,
            baseline=f"{dynamo[2]} (Dynamo, run)",
        ),
    ]


def _memory() -> list[Figure]:
    return [
        Figure(
            name="memory per block, 1 holder",
            value=_bytes_per_block(1, names_differ=False),
            unit="B",
            budget=250,
            baseline="84-88 (Dynamo, run)",
        ),
        Figure(
            name="memory per block, 8 holders",
            value=_bytes_per_block(8, names_differ=False),
            unit="B",
            budget=350,
            baseline="241-338 (Dynamo, run)",
        ),
        Figure(
            name="memory per block, 8 holders with names of their own",
            value=_bytes_per_block(8, names_differ=True),
            unit="B",
            baseline="Dynamo loses blocks then",
        ),
    ]


def _bytes_per_block(holders: int, names_differ: bool) -> float:
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(_grow, (holders, names_differ))


def _grow(holders: int, names_differ: bool) -> float:
    """Resident bytes per block after the last of 64 holders stored the same blocks.

    Names and chain hashes are made anew for each event, as a decoder does, so that nothing is
    shared that would not be shared in service.
    """
    tokens = pack(range(MEMORY_BLOCKS * BLOCK_SIZE))
    step = 64 * BLOCK_SIZE * TOKEN_BYTES
    index = BlockIndex(BLOCK_SIZE)
    fleet = [Holder(f"10.0.0.{number}:8000") for number in range(HOLDERS)]
    for holder in fleet:
        index.bits.bit(holder)
    before = _resident_bytes()
    for number, holder in enumerate(fleet[-holders:]):
        name = 10**18 + (number * 10**15 if names_differ else 0)
        parent = root(IDENTITY)
        for at in range(0, len(tokens), step):
            chains = block_hashes(tokens[at : at + step], BLOCK_SIZE, parent)
            index.store(holder, "gpu", list(range(name, name + len(chains))), chains)
            name += len(chains)
            parent = chains[-1]
    return (_resident_bytes() - before) / index.sizes()["blocks"]


def _resident_bytes() -> int:
    gc.collect()
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[1]) * resource.getpagesize()


def _cpu_us(work: Callable[[], object]) -> float:
    """Median CPU microseconds of one call."""
    times = []
    for _ in range(RUNS):
        began = time.process_time_ns()
        work()
        times.append((time.process_time_ns() - began) / 1000)
    return statistics.median(times)


if __name__ == "__main__":
    sys.exit(report({"index_match": figures}))
