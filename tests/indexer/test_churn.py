"""Engines that come, fill up and go leave no memory behind."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]

CHURN = """
import resource
from pathlib import Path

from indexer.block import Holder, Identity
from indexer.feed import Source
from indexer.hashing import pack
from indexer.prefix_index import PrefixIndex
from tests.indexer import make

BLOCKS, CYCLES, EARLY = 2000, 120, 30
tokens = make.prompt(BLOCKS)
index = PrefixIndex(16)


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def cycle(number):
    holder = Holder(f"10.0.0.1:{number}")
    feed = index.open(Source(holder, "tcp://x", base_model="tiny"))
    names = range(number * BLOCKS + 1, (number + 1) * BLOCKS + 1)
    feed.receive(make.frames(0, make.stored(names, tokens)), 1.0)
    lookup = index.match([Identity("tiny")], pack(tokens), 0.0)
    assert {h: m.blocks for h, m in lookup.matches.items()} == {holder: BLOCKS}
    index.guess(lookup, holder, number + 0.5)
    feed.receive(make.frames(1, make.removed(names[BLOCKS // 2 :])), 1.0)
    feed.receive(make.frames(2, make.stored([1], make.prompt(1, 9), parent=0xDEAD)), 1.0)
    index.close(feed)
    while index.tick(number + 1.0):
        pass
    assert set(index.stats().sizes.values()) == {0}
    assert index.stats().guesses == index.stats().holders == 0


for number in range(CYCLES):
    cycle(number)
    if number == EARLY:
        early = resident()
assert resident() < 1.1 * early, (early, resident())
"""


def test_memory_after_many_endpoints_is_that_after_few() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHURN],
        cwd=ROOT, env={"PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
