"""Block hashes of prompts that begin as earlier ones did: looked up, not computed again."""

from __future__ import annotations

from collections import OrderedDict

from xxhash import xxh3_128_intdigest

from indexer.hashing import TOKEN_BYTES, block_hashes

RUN_BLOCKS = 64
"""Blocks that are remembered together; a prompt's last, shorter run is always computed. Looking a
run up takes a twentieth of computing it."""

MAX_RUNS = 4096
"""About 12 MB: the beginnings of 4 million tokens at 16 a block."""


class RememberedHashes:
    """The hashes of `block_hashes`, for prompts without media.

    A run is known by 128 bits of its ids and by the hash of the block before it.
    """

    def __init__(self, block_size: int, max_runs: int = MAX_RUNS) -> None:
        self._block_size = block_size
        self._run_bytes = RUN_BLOCKS * block_size * TOKEN_BYTES
        self._max_runs = max_runs
        self._runs: OrderedDict[int, tuple[int, ...]] = OrderedDict()

    def __len__(self) -> int:
        return len(self._runs)

    def of(self, tokens: bytes, parent: int) -> list[int]:
        """Chain hashes of the full blocks of packed `tokens`."""
        found: list[int] = []
        ids, size = memoryview(tokens), self._run_bytes
        end = len(tokens) // size * size
        for start in range(0, end, size):
            key = xxh3_128_intdigest(ids[start : start + size], parent)
            run = self._runs.get(key)
            if run is None:
                run = tuple(block_hashes(tokens[start : start + size], self._block_size, parent))
                self._remember(key, run)
            else:
                self._runs.move_to_end(key)
            found += run
            parent = run[-1]
        return found + block_hashes(tokens[end:], self._block_size, parent)

    def _remember(self, key: int, run: tuple[int, ...]) -> None:
        self._runs[key] = run
        if len(self._runs) > self._max_runs:
            self._runs.popitem(last=False)
