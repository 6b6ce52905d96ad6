"""prefix-cache-affinity-filter: keep the endpoints that hold most of the prompt, unless overrun.

Those that hold enough are kept, so that the scorers after it may go by load alone. Where even the
least loaded of them would take much longer to the first token than another endpoint, all stay.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, InFlight, PrefixMatch
from router.request.types import Request


class PrefixCacheAffinityFilter(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """Time to first token = tokens in flight / `peak_prefill_throughput`.

    Attributes:
        affinity_threshold: Share of the prompt's blocks that is enough.
        exploration_probability: How often all stay regardless, 0 to 1.
        max_ttft_penalty_ms: How much longer it may take with the prefix, in milliseconds; 0: any
            time.
        ttft_source: Latency is not predicted: both values mean the formula above.
        peak_prefill_throughput: Tokens an endpoint computes per second.
        prefix_match_info_producer_name: Producer whose match counts; empty: the only one there is.
        in_flight_load_producer_name: Producer whose counts are used; empty: the only one there is.
        latency_prediction_info_producer_name: Accepted; has no effect.
    """

    by_load: ClassVar[bool] = False
    why: ClassVar[str] = "others hold enough of the prompt"

    affinity_threshold: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.8
    exploration_probability: Annotated[float, msgspec.Meta(ge=0, le=1)] = 0.0
    max_ttft_penalty_ms: Annotated[float, msgspec.Meta(ge=0)] = msgspec.field(
        default=18000.0, name="maxTTFTPenaltyMs"
    )
    ttft_source: Literal["prefillThroughput", "latencyPredictor"] = "prefillThroughput"
    peak_prefill_throughput: Annotated[float, msgspec.Meta(gt=0)] = 15928.0
    prefix_match_info_producer_name: str = ""
    in_flight_load_producer_name: str = ""
    latency_prediction_info_producer_name: str = ""

    def needs(self) -> tuple[tuple[type, str], ...]:
        match = (PrefixMatch, self.prefix_match_info_producer_name)
        if self.max_ttft_penalty_ms == 0:
            return (match,)
        return (match, (InFlight, self.in_flight_load_producer_name))

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        explores = self.exploration_probability
        if explores > 0 and facts.rng.random() < explores:
            return endpoints
        match = facts.get(PrefixMatch, self.prefix_match_info_producer_name)
        if match is None or match.total_blocks == 0:
            return endpoints
        sticky = [e for e in endpoints if _share(match, e) >= self.affinity_threshold]
        if not sticky or self._overrun(sticky, endpoints, facts):
            return endpoints
        return sticky

    def _overrun(
        self, sticky: Sequence[Endpoint], endpoints: Sequence[Endpoint], facts: Facts
    ) -> bool:
        in_flight = facts.get(InFlight, self.in_flight_load_producer_name)
        if self.max_ttft_penalty_ms == 0 or in_flight is None or len(sticky) == len(endpoints):
            return False
        addresses = {endpoint.address for endpoint in sticky}
        tokens = in_flight.tokens
        best = min(tokens.get(address, 0) for address in addresses)
        others = min(tokens.get(e.address, 0) for e in endpoints if e.address not in addresses)
        penalty_ms = (best - others) / self.peak_prefill_throughput * 1000
        return penalty_ms > self.max_ttft_penalty_ms


def _share(match: PrefixMatch, endpoint: Endpoint) -> float:
    held = match.held.get(endpoint.address)
    return held.weighted / match.total_blocks if held else 0.0
