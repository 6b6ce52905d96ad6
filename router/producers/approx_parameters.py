"""Parameters of approx-prefix-cache-producer, in llm-d's words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import msgspec

MIN_BLOCK_TOKENS = 64
"""Smaller blocks are raised to this: each costs a hash, and a prompt has many (llm-d)."""

_NotNegative = Annotated[int, msgspec.Meta(ge=0)]
_BlockSize = Annotated[int, msgspec.Meta(ge=0, le=65536)]


class ApproxPrefixParameters(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """
    Attributes:
        auto_tune: Take the block size and what a cache holds from what engines publish.
        block_size_tokens: Tokens per block where they publish none; at least 64 are used.
        block_size: Older name of it; counts where it is set.
        max_prefix_tokens_to_match: Tokens of a prompt that are looked at; 0: the next one counts.
        max_prefix_blocks_to_match: Blocks of a prompt that are looked at; 0: all.
        lru_capacity_per_server: Blocks remembered of an endpoint whose cache size is not known.
    """

    auto_tune: bool = True
    block_size_tokens: _BlockSize = 16
    block_size: _BlockSize = 0
    max_prefix_tokens_to_match: _NotNegative = 131072
    max_prefix_blocks_to_match: _NotNegative = 2048
    lru_capacity_per_server: Annotated[int, msgspec.Meta(ge=1)] = 31250

    def __post_init__(self) -> None:
        if not self.auto_tune and not (self.block_size or self.block_size_tokens):
            raise ValueError("blockSizeTokens is at least 1 without autoTune")

    def in_force(self) -> Mapping[str, object]:
        """Parameters that come to another value, where engines publish none."""
        return {"blockSizeTokens": self.block_tokens(None)}

    def block_tokens(self, published: int | None) -> int:
        """Tokens per block where engines publish so many."""
        tuned = published if self.auto_tune else None
        return max(tuned or self.block_size or self.block_size_tokens, MIN_BLOCK_TOKENS)

    def max_blocks(self, block_tokens: int) -> int | None:
        """Blocks of a prompt that are looked at; None: all."""
        if self.max_prefix_tokens_to_match:
            return self.max_prefix_tokens_to_match // block_tokens
        return self.max_prefix_blocks_to_match or None
