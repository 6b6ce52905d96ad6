"""What was predicted for each endpoint, to be held against its own prefix cache counters."""

from __future__ import annotations

import msgspec

from indexer.block import GPU
from router.errors import RouterError
from router.telemetry.decisions import Record

FAILED_STATUS = 400
"""From this status on the engine has not computed the prompt."""


class Predicted(msgspec.Struct):
    """Of the requests an endpoint answered whose prompt's tokens were known.

    Attributes:
        requests: How many.
        prompt_tokens: Tokens of their prompts.
        cached_tokens: Those that the endpoint was expected to find in its GPU memory, which is
            what engines count as hits.
    """

    requests: int = 0
    prompt_tokens: int = 0
    cached_tokens: int = 0


class Comparison:
    """
    Attributes:
        predicted: Endpoint address -> what it was expected to reuse.
    """

    def __init__(self) -> None:
        self.predicted: dict[str, Predicted] = {}

    def routed(self, record: Record) -> None:
        """Whether it is answered shows at its end."""

    def refused(self, record: Record, error: RouterError) -> None:
        """No endpoint saw it."""

    def ended(self, record: Record) -> None:
        """A request's exchange is over.

        Where another endpoint prefilled, both looked the prompt up, each in its own cache.
        """
        if record.status is None or record.status >= FAILED_STATUS:
            return
        if record.prompt_tokens is None or record.endpoint is None or record.served is not None:
            return
        cached = record.predicted_cached_tokens
        if cached is None:
            return
        if record.prefill is None:
            self._add(record, record.endpoint, cached)
            return
        self._add(record, record.prefill.endpoints[0], cached)
        held = record.prefix.get(record.endpoint)
        blocks = held.speculative if held else 0
        # An engine computes at least the last token again.
        reusable = min(blocks, (record.prompt_tokens - 1) // (record.block_size or 1))
        self._add(record, record.endpoint, reusable * record.block_size)

    def _add(self, record: Record, address: str, cached: int) -> None:
        known = self.predicted.setdefault(address, Predicted())
        known.requests += 1
        known.prompt_tokens += record.prompt_tokens or 0
        known.cached_tokens += max(0, cached - _elsewhere(record, address))

    def forget(self, address: str) -> None:
        """The endpoint is gone."""
        self.predicted.pop(address, None)


def _elsewhere(record: Record, address: str) -> int:
    """Tokens that the endpoint holds, but not in GPU memory."""
    held = record.prefix.get(address)
    if held is None:
        return 0
    return sum(n for tier, n in held.tiers.items() if tier != GPU) * record.block_size
