"""approx-prefix-cache-producer: who probably holds the prompt's prefix, by what was sent where.

No engine is asked: what was sent to an endpoint lately is taken to be in its cache. A request that
fails takes back what it added; an engine that restarts or goes takes everything.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.approx_index import ApproxIndex, Sent
from router.producers.approx_parameters import ApproxPrefixParameters
from router.producers.facts import Facts, HeldPrefix, PrefixMatch, Tokens
from router.producers.prefix_chain import chain
from router.request.types import Request
from router.scheduling.types import Decision

ESTIMATED = "estimated"
"""The tier of blocks that no engine announced."""


class _Prompt(msgspec.Struct, frozen=True):
    """The prompt's blocks, kept from the match to the pick."""

    names: tuple[int, ...]
    block_tokens: int


class ApproxPrefix:
    """States PrefixMatch.

    Attributes:
        index: To be told of endpoints that go or restart.
    """

    def __init__(self, name: str, parameters: ApproxPrefixParameters) -> None:
        self.name = name
        self._parameters = parameters
        self.index: ApproxIndex[int] = ApproxIndex()

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        tokens = facts.get(Tokens)
        if tokens is None:
            return
        size = self._parameters.block_tokens(_published(endpoints))
        most = self._parameters.max_blocks(size)
        names = chain(tokens, size, request.model, request.cache_salt, most)
        asleep = {e.address for e in endpoints if e.metrics is not None and e.metrics.asleep}
        held = {
            address: HeldPrefix(blocks, {ESTIMATED: blocks}, blocks, float(blocks))
            for address, blocks in self.index.reach(names).items()
            if address not in asleep
        }
        facts.put(PrefixMatch(len(names), size, held), self.name)
        facts.put(_Prompt(names, size), self.name)

    def decided(self, request: Request, facts: Facts, decision: Decision) -> Sent[int] | None:
        prompt = facts.get(_Prompt, self.name)
        if prompt is None:
            return None
        sent = Sent(self.index, decision, prompt.names)
        for endpoint in decision.holders:
            sent.sent(endpoint.address, self._capacity(endpoint, prompt.block_tokens))
        return sent

    def _capacity(self, endpoint: Endpoint, block_tokens: int) -> int:
        """Blocks of ours that the endpoint's cache holds; its own may be smaller."""
        metrics = endpoint.metrics
        if not self._parameters.auto_tune or metrics is None:
            return self._parameters.lru_capacity_per_server
        if not metrics.gpu_blocks or not metrics.block_size:
            return self._parameters.lru_capacity_per_server
        return max(metrics.gpu_blocks * metrics.block_size // block_tokens, 1)


def _published(endpoints: Sequence[Endpoint]) -> int | None:
    """The block size of the first endpoint that publishes one."""
    sizes = (e.metrics.block_size for e in endpoints if e.metrics is not None)
    return next((size for size in sizes if size), None)
