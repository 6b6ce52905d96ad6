"""Remembered hashes are those that would be computed."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from indexer import remembered
from indexer.hashing import block_hashes
from indexer.remembered import RUN_BLOCKS, RememberedHashes

BLOCK_SIZES = (1, 2, 16)


def tokens(count: int, seed: int) -> bytes:
    return random.Random(seed).randbytes(4 * count)


@given(
    block_size=st.sampled_from(BLOCK_SIZES),
    max_runs=st.integers(1, 4),
    prompts=st.lists(
        # Shared beginnings of a few seeds, each with an end of its own.
        st.tuples(st.integers(0, 2), st.integers(0, 4 * RUN_BLOCKS), st.integers(0, 70)),
        max_size=8,
    ),
    parents=st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=2),
)
def test_they_are_those_that_would_be_computed(
    block_size: int, max_runs: int, prompts: list[tuple[int, int, int]], parents: list[int]
) -> None:
    memory = RememberedHashes(block_size, max_runs)
    for number, (seed, shared, own) in enumerate(prompts):
        prompt = tokens(4 * RUN_BLOCKS * block_size, seed)[: 4 * shared * block_size]
        prompt += tokens(own, 100 + number)
        parent = parents[number % len(parents)]
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
