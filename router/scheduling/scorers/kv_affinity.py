"""kv-affinity-scorer: weigh what an endpoint holds of the prompt against its load (MindIE Motor).

    matched    = min(round(blocks held, each counted by its medium, x block size), prompt)
    unified    = prefill load scale x max(0, prompt - overlap credit x matched) + load weight x load
    load_gated = by most matched tokens, then by least load

The lowest unified cost scores 1, the highest 0, the rest in proportion; a rank scores in proportion
to its place. Equal ones score the same. Prompts shorter than a block go by load alone, and so does
a prompt of which nobody holds anything, or less than the threshold.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Literal

import msgspec

from indexer.conductor.coverage import by_tier
from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, InFlight, PrefixMatch, Tokens
from router.request.types import Request
from router.scheduling.figures import lowest_best
from router.scheduling.motor_load import loads

MAX_WEIGHT = 1e9
"""Beyond it costs lose their digits; infinity is no weight."""

Weight = Annotated[float, msgspec.Meta(ge=0, le=MAX_WEIGHT)]


class KvAffinityScorer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """
    Attributes:
        mode: How the two are weighed; `load_gated` goes with load-gate-filter.
        load_weight: What a token of load costs; 0: affinity alone.
        overlap_credit: What a matched token saves.
        prefill_load_scale: What a token to compute costs.
        w_npu: Worth of a block in the engine's own memory.
        w_cpu: Worth of a block in CPU memory.
        w_disk: Worth of a block on disk.
        hit_rate_threshold: Share of the prompt that somebody must hold; below it load decides.
        prefix_match_info_producer_name: Producer whose match counts; empty: the only one there is.
        in_flight_load_producer_name: Producer whose counts are used; empty: the only one there is.
    """

    mode: Literal["unified", "load_gated"] = "unified"
    load_weight: Weight = 1.0
    overlap_credit: Weight = 1.0
    prefill_load_scale: Weight = 1.0
    w_npu: Weight = 1.0
    w_cpu: Weight = 1.0
    w_disk: Weight = 0.0
    hit_rate_threshold: Weight = 0.0
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
        load = loads(endpoints, facts, self.in_flight_load_producer_name)
        prompt, matched = self._matched(endpoints, facts)
        if not (best := max(matched)) or best / prompt < self.hit_rate_threshold:
            return lowest_best(load)
        if self.mode == "load_gated":
            return _by_place(list(zip((-m for m in matched), load, strict=True)))
        return lowest_best(
            [self._cost(prompt, m, tokens) for m, tokens in zip(matched, load, strict=True)]
        )

    def _cost(self, prompt: int, matched: int, load: float) -> float:
        prefill = max(0.0, prompt - self.overlap_credit * matched)
        return self.prefill_load_scale * prefill + self.load_weight * load

    def _matched(self, endpoints: Sequence[Endpoint], facts: Facts) -> tuple[int, list[int]]:
        """Tokens of the prompt, and how many of them each endpoint saves."""
        tokens = facts.get(Tokens)
        match = facts.get(PrefixMatch, self.prefix_match_info_producer_name)
        if tokens is None or match is None or tokens.count < match.block_size:
            return 0, [0] * len(endpoints)
        matched = []
        for endpoint in endpoints:
            held = match.held.get(endpoint.address)
            worth = self._worth(held.tiers) if held else 0.0
            matched.append(min(round(worth * match.block_size), tokens.count))
        return tokens.count, matched

    def _worth(self, tiers: Mapping[str, int]) -> float:
        npu, cpu, disk = by_tier(tiers)
        return npu * self.w_npu + cpu * self.w_cpu + disk * self.w_disk


def _by_place(keys: Sequence[tuple[float, float]]) -> list[float]:
    """The first of n scores 1, the last 0; who is equal shares the better place."""
    if len(keys) == 1:
        return [1.0]
    places: dict[tuple[float, float], int] = {}
    for place, key in enumerate(sorted(keys)):
        places.setdefault(key, place)
    return [1.0 - places[key] / (len(keys) - 1) for key in keys]
