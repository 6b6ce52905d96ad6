"""no-hit-lru-scorer: spread prompts that nobody holds over the endpoints that had none for longest.

With n candidates, of which u never had such a prompt: those score 1 - i / (n - 1) in the order of
their addresses, the others 1 - (u + j) / (n - 1), j = 0 for the one that had its last the longest
ago. If any candidate holds part of the prompt, all score 0.5.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Annotated

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, PrefixMatch
from router.producers.types import Lease
from router.request.types import Request
from router.scheduling.types import Decision

NEUTRAL = 0.5
"""What everybody scores where the prompt is not new."""


class NoHitLruParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """
    Attributes:
        lru_size: Endpoints whose last new prompt is remembered.
        prefix_match_info_producer_name: Producer whose matches count; empty: the only one there is.
        prefix_plugin_type: Has no effect.
        prefix_plugin_name: Has no effect.
    """

    lru_size: Annotated[int, msgspec.Meta(ge=1)] = 1024
    prefix_match_info_producer_name: str = ""
    prefix_plugin_type: str = ""
    prefix_plugin_name: str = ""

    def build(self) -> NoHitLruScorer:
        """The scorer; nobody had a new prompt yet."""
        return NoHitLruScorer(self)


class NoHitLruScorer:
    """Is told of every pick, and remembers those of new prompts."""

    def __init__(self, parameters: NoHitLruParameters) -> None:
        self._producer = parameters.prefix_match_info_producer_name
        self._size = parameters.lru_size
        self._used: OrderedDict[str, None] = OrderedDict()

    def needs(self) -> tuple[tuple[type, str], ...]:
        return ((PrefixMatch, self._producer),)

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        addresses = [endpoint.address for endpoint in endpoints]
        if self._is_held(facts, addresses):
            return [NEUTRAL] * len(endpoints)
        candidates = set(addresses)
        unused = sorted(candidates - self._used.keys())
        order = [*unused, *(address for address in self._used if address in candidates)]
        span = max(len(order) - 1, 1)
        scores = {address: 1 - i / span for i, address in enumerate(order)}
        return [scores[address] for address in addresses]

    def decided(self, request: Request, facts: Facts, decision: Decision) -> Lease | None:
        stages = [decision.primary, *([decision.prefill] if decision.prefill else ())]
        if self._is_held(facts, (address for stage in stages for address in stage.totals)):
            return None
        for endpoint in decision.holders:
            self._used[endpoint.address] = None
            self._used.move_to_end(endpoint.address)
        while len(self._used) > self._size:
            self._used.popitem(last=False)
        return None

    def _is_held(self, facts: Facts, addresses: Iterable[str]) -> bool:
        """Whether any of these holds part of the prompt."""
        match = facts.get(PrefixMatch, self._producer)
        if match is None:
            return False
        held = match.held
        return any(a in held and held[a].weighted > 0 for a in addresses)
