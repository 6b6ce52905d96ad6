"""Parameters of burst-prefix-cache-producer, in llm-d's words."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

UNLIMITED = -1

_LimitOrNone = Annotated[int, msgspec.Meta(ge=UNLIMITED)]

DEFAULT_MAX_BLOCKS = 2048
"""Blocks of a prompt that are looked at where nothing is said."""


class BurstPrefixParameters(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """
    Attributes:
        window_duration_ms: How long the first request of a burst waits for the others.
        max_per_replica: Requests of one prompt that one endpoint gets; -1: all.
        block_size_tokens: Tokens per block.
        max_prefix_tokens_to_match: Tokens of a prompt that are looked at; 0: 2,048 blocks.
        min_colocate_blocks: First blocks that different prompts must share to be sent to one
            endpoint; 0: only equal prompts are.
        max_batch_size: Requests that end the window early; -1: any number is waited for.
        balance_by: What endpoints get equally much of: requests, or blocks to compute.
    """

    window_duration_ms: Annotated[int, msgspec.Meta(ge=1, le=10_000)] = 100
    max_per_replica: _LimitOrNone = UNLIMITED
    block_size_tokens: Annotated[int, msgspec.Meta(ge=1, le=65536)] = 64
    max_prefix_tokens_to_match: Annotated[int, msgspec.Meta(ge=0)] = 0
    min_colocate_blocks: Annotated[int, msgspec.Meta(ge=0)] = 0
    max_batch_size: _LimitOrNone = 1000
    balance_by: Literal["requests", "tokens"] = "requests"

    def __post_init__(self) -> None:
        for name, limit in (
            ("maxPerReplica", self.max_per_replica),
            ("maxBatchSize", self.max_batch_size),
        ):
            if limit == 0:
                raise ValueError(f"{name} is at least 1, or -1 for no limit")
        if 0 < self.max_prefix_tokens_to_match < self.block_size_tokens:
            raise ValueError("maxPrefixTokensToMatch is at least one block: blockSizeTokens")

    @property
    def max_blocks(self) -> int:
        """Blocks of a prompt that are looked at."""
        return self.max_prefix_tokens_to_match // self.block_size_tokens or DEFAULT_MAX_BLOCKS
