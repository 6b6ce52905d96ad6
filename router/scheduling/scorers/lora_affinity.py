"""lora-affinity-scorer: prefer the endpoint that has the request's LoRA adapter loaded.

An endpoint whose metrics are not known scores the mean of the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from router.pool.endpoint import Endpoint, EngineMetrics
from router.producers.facts import Facts
from router.request.types import Request
from router.scheduling.figures import filled, fresh


class LoraAffinityScorer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Takes no parameters."""

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        scores = [_score(m, request.model) if m else None for m in fresh(endpoints, facts)]
        return filled(scores) or [0.0] * len(endpoints)


def _score(metrics: EngineMetrics, model: str) -> float:
    if model in metrics.running_adapters:
        return 1.0
    loaded = len(metrics.running_adapters) + len(metrics.waiting_adapters)
    if loaded < (metrics.max_adapters or 0):
        return 0.8
    return 0.6 if model in metrics.waiting_adapters else 0.0
