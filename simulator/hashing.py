"""Block hashes exactly as vLLM's `sha256` algorithm makes them: each chained to the block before.

    digest = sha256(pickle((parent digest, token ids, extra keys or None)))

The first block's parent is the hash of a seed that all engines share by default, so two engines
give one prompt the same hashes. vLLM since 0.31 tags the extra keys and lets a LoRA's path in.
"""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Sequence

import msgspec

DEFAULT_SEED = "vllm-none-hash"
"""What vLLM since 0.29 hashes for the root when PYTHONHASHSEED is not set."""


class Adapter(msgspec.Struct, frozen=True):
    """
    Attributes:
        name: The served name, what a request's `model` says.
        path: Where the weights lie; part of the block hash.
        number: Counts up from 1 in load order; means nothing outside this engine.
    """

    name: str
    path: str
    number: int


class Identity(msgspec.Struct, frozen=True):
    """What keeps equal token prefixes apart: the adapter on each block, the salt on the first."""

    adapter: Adapter | None = None
    cache_salt: str | None = None

    def extra(self, index: int) -> tuple[tuple[str, ...], ...] | None:
        """What enters the hash of block `index` beside its tokens."""
        keys: list[tuple[str, ...]] = []
        if self.adapter is not None:
            keys.append(("lora", self.adapter.name, self.adapter.path))
        if self.cache_salt is not None and index == 0:
            keys.append(("cache_salt", self.cache_salt))
        return tuple(keys) or None

    def announced(self, index: int) -> tuple[str, ...] | None:
        """The same keys as a KV event shows them: untagged, and an adapter by its name alone."""
        keys = self.extra(index)
        return None if keys is None else tuple(key[1] for key in keys)


def _sha256(value: object) -> bytes:
    return hashlib.sha256(pickle.dumps(value, protocol=5)).digest()


def root(seed: str) -> bytes:
    """The parent of every first block."""
    return _sha256(seed)


class Hasher:
    """Hashes the full blocks of a token sequence, from any block on."""

    def __init__(self, block_size: int, seed: str = DEFAULT_SEED) -> None:
        self.block_size = block_size
        self._root = root(seed)

    def chain(
        self, token_ids: Sequence[int], identity: Identity, known: Sequence[bytes] = ()
    ) -> list[bytes]:
        """The digests of the full blocks after the `known` ones."""
        size = self.block_size
        parent = known[-1] if known else self._root
        digests = []
        for index in range(len(known), len(token_ids) // size):
            tokens = tuple(token_ids[index * size : (index + 1) * size])
            parent = _sha256((parent, tokens, identity.extra(index)))
            digests.append(parent)
        return digests
