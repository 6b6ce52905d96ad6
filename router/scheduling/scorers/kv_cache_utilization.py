"""kv-cache-utilization-scorer: prefer the endpoint with the most free KV cache.

score = 1 - share of the cache held by running requests. An endpoint whose share is not known counts
as the mean of the known ones: never best, never worst.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request


class KvCacheUtilizationScorer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Takes no parameters."""

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        usage = [e.metrics.kv_usage if e.metrics else None for e in endpoints]
        known = [u for u in usage if u is not None]
        mean = sum(known) / len(known) if known else 0.0
        return [1.0 - (mean if u is None else u) for u in usage]
