"""Remembered hashes are those that would be computed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer import remembered
from indexer.hashing import block_hashes
from indexer.remembered import RUN_BLOCKS, RememberedHashes

BLOCK_SIZES = (1, 2, 16)


def tokens(count: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(4 * count)


@settings(deadline=None)
@given(
    block_size=st.sampled_from(BLOCK_SIZES),
    max_runs=st.integers(1, 4),
    seed=st.integers(0, 2**32),
)
def test_they_are_those_that_would_be_computed(block_size: int, max_runs: int, seed: int) -> None:
    memory = RememberedHashes(block_size, max_runs)
    rng = random.Random(seed)
    beginnings = [rng.randbytes(4 * 4 * RUN_BLOCKS * block_size) for _ in range(2)]
    parents = [rng.getrandbits(64) for _ in range(2)]
    for _ in range(8):
        shared = rng.choice((0, 1, 63, 64, 65, 128, 200, 256))
        prompt = rng.choice(beginnings)[: 4 * shared * block_size]
        prompt += rng.randbytes(rng.randrange(4 * 70))
        parent = rng.choice(parents)
        assert memory.of(prompt, parent) == block_hashes(prompt, block_size, parent)
        assert len(memory) <= max_runs


def test_only_what_is_new_is_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    computed: list[int] = []

    def counting(given: bytes, block_size: int, parent: int) -> list[int]:
        computed.append(len(given) // 4)
        return block_hashes(given, block_size, parent)

    monkeypatch.setattr(remembered, "block_hashes", counting)
    memory = RememberedHashes(16)
    run = RUN_BLOCKS * 16
    known = tokens(5 * run, 1)
    memory.of(known + tokens(40, 2), 7)
    assert computed == [run] * 5 + [40]
    del computed[:]
    memory.of(known + tokens(run + 20, 3), 7)
    assert computed == [run, 20]
    del computed[:]
    memory.of(known, 8)
    assert computed == [run] * 5 + [0], "another root"


def test_what_was_not_asked_for_the_longest_is_forgotten_first() -> None:
    memory = RememberedHashes(1, max_runs=2)
    first, second, third = (tokens(RUN_BLOCKS, seed) for seed in range(3))
    one, two = memory.of(first, 0), memory.of(second, 0)
    assert memory.of(first, 0)[0] is one[0]
    memory.of(third, 0)
    assert memory.of(first, 0)[0] is one[0]
    assert memory.of(second, 0)[0] is not two[0]
