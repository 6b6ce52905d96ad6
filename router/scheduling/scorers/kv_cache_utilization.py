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
from router.scheduling.figures import filled, fresh


class KvCacheUtilizationScorer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Takes no parameters."""

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        usage = filled([m.kv_usage if m else None for m in fresh(endpoints, facts)])
        return [1.0 - share for share in usage or [0.0] * len(endpoints)]
