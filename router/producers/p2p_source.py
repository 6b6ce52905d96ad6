"""p2p-source-producer: from which peer the endpoint that computes the prompt may pull its prefix.

The peer is named to the engine's sidecar in a header, once it is known who computes. Peers within
one block of the longest prefix are equally good; among them a short queue is likelier, and one
request always gets the same answer.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Annotated

import msgspec

from router.extproc.headers import CACHE_SOURCE
from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, PrefixMatch
from router.producers.types import Lease
from router.request.types import Request
from router.scheduling.types import Decision


class P2PSourceParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """
    Attributes:
        prefix_match_info_producer_name: Whose matches count; empty: the only ones there are.
        min_cached_token_delta: Tokens that a peer must hold more than who computes.
        prefill_profile_name: Profile whose pick computes the prompt, where it runs.
    """

    prefix_match_info_producer_name: str = ""
    min_cached_token_delta: Annotated[int, msgspec.Meta(ge=1)] = 1
    prefill_profile_name: str = "prefill"

    def needs(self) -> tuple[tuple[type, str], ...]:
        return ((PrefixMatch, self.prefix_match_info_producer_name),)


class _Peers(msgspec.Struct, frozen=True):
    """Whoever may be pulled from: also endpoints that a profile leaves out."""

    endpoints: Sequence[Endpoint]


class P2PSource:
    """States nothing to others; adds the header."""

    def __init__(self, name: str, parameters: P2PSourceParameters) -> None:
        self.name = name
        self._parameters = parameters

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        facts.put(_Peers(endpoints), self.name)

    def decided(self, request: Request, facts: Facts, decision: Decision) -> Lease | None:
        return None

    def amended(self, request: Request, facts: Facts, decision: Decision) -> Decision:
        match = facts.get(PrefixMatch, self._parameters.prefix_match_info_producer_name)
        peers = facts.get(_Peers, self.name)
        if match is None or peers is None:
            return decision
        prefill = decision.of(self._parameters.prefill_profile_name)
        computing = (prefill or decision.primary).endpoint.address
        best = _best(match, peers.endpoints, self._least(match, computing), computing)
        if not best:
            return decision
        headers = {**decision.headers, CACHE_SOURCE: _drawn(best, request.id)}
        return msgspec.structs.replace(decision, headers=headers)

    def _least(self, match: PrefixMatch, computing: str) -> float:
        """Blocks that a peer must hold to be worth it. Who computes has its guesses, too."""
        held = match.held.get(computing)
        own = held.speculative if held is not None else 0
        return own + self._parameters.min_cached_token_delta / match.block_size


def _best(
    match: PrefixMatch, peers: Sequence[Endpoint], least: float, computing: str
) -> Mapping[str, float]:
    """Address -> weight of the peers that confirmedly hold the most, by address."""
    blocks = {
        e.address: held.blocks
        for e in sorted(peers, key=lambda e: e.address)
        if e.address != computing and (held := match.held.get(e.address)) is not None
    }
    longest = max(blocks.values(), default=0)
    waiting = {e.address: e.metrics.waiting if e.metrics is not None else None for e in peers}
    known = [n for n in waiting.values() if n is not None]
    mean = sum(known) / len(known) if known else 0.0
    return {
        address: 1 / (1 + (mean if (queue := waiting[address]) is None else queue))
        for address, count in blocks.items()
        if count >= least and count >= longest - 1
    }


def _drawn(weights: Mapping[str, float], request_id: str) -> str:
    """One of them by weight, always the same for one request."""
    at = _fnv_32a(request_id.encode()) / 2**32 * sum(weights.values())
    passed = zip(weights, accumulate(weights.values()), strict=True)
    # The last one also where the sum was rounded down.
    return next((address for address, end in passed if at < end), [*weights][-1])


def _fnv_32a(data: bytes) -> int:
    value = 0x811C9DC5
    for byte in data:
        value = (value ^ byte) * 0x01000193 & 0xFFFFFFFF
    return value
