"""A request on its way through the engine: its tokens so far, its blocks, its times."""

from __future__ import annotations

from simulator.blocks import Block
from simulator.types import EngineRequest, Finished, FinishReason


class Sequence:
    """What the scheduler knows of a request.

    Attributes:
        digests: Hashes of all full blocks of `tokens`.
        stored_blocks: How many of `blocks` are reusable by others.
        computed: How many of `tokens` have their KV in `blocks`.
        cached_tokens: What was reused at the first admission; None before it.
    """

    def __init__(self, request: EngineRequest, now_s: float) -> None:
        self.request = request
        self.tokens = list(request.prompt_token_ids)
        self.digests = list(request.digests)
        self.blocks: list[Block] = []
        self.stored_blocks = 0
        self.computed = 0
        self.cached_tokens: int | None = None
        self.preemptions = 0
        self.arrived_s = now_s
        self.admitted_s = now_s
        self.first_token_s: float | None = None
        self.last_token_s = now_s

    @property
    def output_tokens(self) -> int:
        return len(self.tokens) - len(self.request.prompt_token_ids)

    @property
    def is_fetched(self) -> bool:
        """All but its last token came from elsewhere; what came is lost with a preemption."""
        return self.request.fetched and self.cached_tokens is None

    @property
    def block_numbers(self) -> tuple[int, ...]:
        return tuple(block.number for block in self.blocks)

    def account(self, reason: FinishReason, now_s: float) -> Finished:
        """The figures of a request that ends now."""
        first_token_s = now_s if self.first_token_s is None else self.first_token_s
        return Finished(
            reason=reason,
            prompt_tokens=len(self.request.prompt_token_ids),
            output_tokens=self.output_tokens,
            cached_tokens=self.cached_tokens or 0,
            max_tokens=self.request.max_tokens,
            preemptions=self.preemptions,
            queue_s=self.admitted_s - self.arrived_s,
            prefill_s=first_token_s - self.admitted_s,
            decode_s=now_s - first_token_s,
            e2e_s=now_s - self.arrived_s,
        )
