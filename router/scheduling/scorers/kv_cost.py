"""kv-cost-scorer: prefer the endpoint where a request costs the fewest KV blocks (Dynamo's rule).

    cost   = prefill + decode + active request weight x requests in flight
    prefill = prefill load scale x max(0, blocks still to compute, this prompt's with them - credit)
    decode  = blocks that running requests hold
    credit  = blocks of this prompt it holds, each worth what its tier is

The lowest cost scores 1, the highest 0, the rest in proportion; all equal, all score 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from router.pool.endpoint import Endpoint, EngineMetrics
from router.producers.facts import Facts, HeldPrefix, InFlight, PrefixMatch, Tokens
from router.request.types import Request
from router.scheduling.figures import filled, fresh, lowest_best

DEVICE = frozenset({"gpu", "npu"})
HOST = frozenset({"cpu"})
SHARED = frozenset({"shared_storage"})
"""Tiers by what they are; every other one is some disk."""

BLOCK_TOKENS = 16
"""Tokens per block where no match says; vLLM's default."""

_NO_LOAD = InFlight({})
_NO_MATCH = PrefixMatch(0, BLOCK_TOKENS, {})

Weight = Annotated[float, msgspec.Meta(ge=0)]


class KvCostScorer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """
    Attributes:
        overlap_score_credit: Worth of a block in device memory, in blocks to compute.
        overlap_score_credit_decay: How fast that worth falls with the blocks an endpoint has to
            compute beyond the least loaded one, in prompts of this length.
        host_cache_hit_weight: Worth of a block in host memory.
        disk_cache_hit_weight: Worth of a block on disk.
        shared_cache_multiplier: Worth of a block in shared storage.
        prefill_load_scale: What a block to compute counts.
        active_request_weight: What a request in flight counts, in blocks.
        track_prefill_tokens: Blocks to compute count; else held ones are taken off `decode`.
        prefix_match_info_producer_name: Producer whose match counts; empty: the only one there is.
        in_flight_load_producer_name: Producer whose counts are used; empty: the only one there is.
    """

    overlap_score_credit: Weight = 1.0
    overlap_score_credit_decay: Weight = 0.0
    host_cache_hit_weight: Weight = 0.75
    disk_cache_hit_weight: Weight = 0.25
    shared_cache_multiplier: Weight = 0.0
    prefill_load_scale: Weight = 1.0
    active_request_weight: Weight = 0.0
    track_prefill_tokens: bool = True
    prefix_match_info_producer_name: str = ""
    in_flight_load_producer_name: str = ""

    def needs(self) -> tuple[tuple[type, str], ...]:
        return (
            (PrefixMatch, self.prefix_match_info_producer_name),
            (InFlight, self.in_flight_load_producer_name),
        )

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        match = facts.get(PrefixMatch, self.prefix_match_info_producer_name) or _NO_MATCH
        in_flight = facts.get(InFlight, self.in_flight_load_producer_name) or _NO_LOAD
        tokens, size = facts.get(Tokens), match.block_size
        prompt = tokens.count / size if tokens else float(match.total_blocks)
        queued = [in_flight.tokens.get(e.address, 0) / size for e in endpoints]
        least = min(queued)
        decode = filled([_held_blocks(m, size) for m in fresh(endpoints, facts)])
        costs = []
        for endpoint, ahead, running in zip(
            endpoints, queued, decode or [0.0] * len(endpoints), strict=True
        ):
            credit = self._credit(match.held.get(endpoint.address), ahead - least, prompt)
            requests = in_flight.requests.get(endpoint.address, 0)
            load = self.active_request_weight * requests
            costs.append(load + self._blocks(ahead + prompt, running, credit))
        return lowest_best(costs)

    def _blocks(self, to_compute: float, running: float, credit: float) -> float:
        if not self.track_prefill_tokens:
            return max(0.0, running - credit)
        return self.prefill_load_scale * max(0.0, to_compute - credit) + running

    def _credit(self, held: HeldPrefix | None, excess: float, prompt: float) -> float:
        if held is None:
            return 0.0
        prompts = excess / prompt if prompt and self.track_prefill_tokens else 0.0
        decay = 1 / (1 + self.overlap_score_credit_decay * prompts)
        # A block that was just sent there will be computed in device memory.
        guessed = max(0, held.speculative - held.blocks)
        device = self.overlap_score_credit * decay
        return device * guessed + sum(
            blocks * self._worth(tier, device) for tier, blocks in held.tiers.items()
        )

    def _worth(self, tier: str, device: float) -> float:
        if tier in DEVICE:
            return device
        if tier in HOST:
            return self.host_cache_hit_weight
        return self.shared_cache_multiplier if tier in SHARED else self.disk_cache_hit_weight


def _held_blocks(metrics: EngineMetrics | None, block_size: int) -> float | None:
    """What running requests hold, in blocks of that size; None where the engine does not say."""
    if metrics is None or metrics.kv_usage is None or metrics.gpu_blocks is None:
        return None
    own_size = metrics.block_size or block_size
    return metrics.kv_usage * metrics.gpu_blocks * own_size / block_size
