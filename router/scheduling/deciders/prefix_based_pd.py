"""prefix-based-pd-decider: prefill elsewhere what the decode endpoint would have to compute."""

from __future__ import annotations

from typing import Annotated

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, PrefixMatch, Tokens
from router.request.types import Request

_Count = Annotated[int, msgspec.Meta(ge=0)]


class PrefixBasedPdDecider(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Yes where at least `non_cached_tokens` of the prompt are not cached at the endpoint.

    Cached are the blocks that its engine has confirmed, whatever their tier: a guess is a prompt
    that is still being computed, and who waits for it on the decode engine computes it there.

    Attributes:
        non_cached_tokens: The threshold; 0: never.
        prompt_tokens: No for shorter prompts; 0: for no length.
        prefix_match_info_producer_name: Producer whose match counts; empty: the only one there is.
    """

    non_cached_tokens: _Count = 0
    prompt_tokens: _Count = 0
    prefix_match_info_producer_name: str = ""

    def needs(self) -> tuple[tuple[type, str], ...]:
        return ((PrefixMatch, self.prefix_match_info_producer_name), (Tokens, ""))

    def disaggregates(self, request: Request, endpoint: Endpoint | None, facts: Facts) -> bool:
        tokens = facts.get(Tokens)
        match = facts.get(PrefixMatch, self.prefix_match_info_producer_name)
        if self.non_cached_tokens == 0 or endpoint is None or tokens is None or match is None:
            return False
        if tokens.count < self.prompt_tokens:
            return False
        held = match.held.get(endpoint.address)
        cached = held.blocks * match.block_size if held else 0
        return tokens.count - cached >= self.non_cached_tokens
