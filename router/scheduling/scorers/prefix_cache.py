"""prefix-cache-scorer: prefer the endpoint that already holds most of the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, PrefixMatch
from router.request.types import Request


class PrefixCacheScorer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """score = w * min(1, matched tokens / scale)^2 + (1 - w) * matched / total blocks (llm-d).

    Attributes:
        prefix_match_info_producer_name: Producer whose match counts; empty: the only one there is.
        match_length_weight: w, 0 to 1.
        match_length_scale_tokens: Matched tokens at which the first term is full.
    """

    prefix_match_info_producer_name: str = ""
    match_length_weight: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    match_length_scale_tokens: Annotated[int, msgspec.Meta(gt=0)] = 8192

    def needs(self) -> tuple[tuple[type, str], ...]:
        return ((PrefixMatch, self.prefix_match_info_producer_name),)

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        match = facts.get(PrefixMatch, self.prefix_match_info_producer_name)
        if match is None or match.total_blocks == 0:
            return [0.0] * len(endpoints)
        held, total = match.held, match.total_blocks
        blocks = [h.weighted if (h := held.get(e.address)) else 0.0 for e in endpoints]
        weight = self.match_length_weight
        if weight == 0:
            return [b / total for b in blocks]
        scale = match.block_size / self.match_length_scale_tokens
        return [weight * min(1.0, b * scale) ** 2 + (1 - weight) * b / total for b in blocks]
