"""load-aware-scorer: prefer short queues, by their length alone.

score = 0.5 x (1 - min(waiting, threshold) / threshold). An endpoint whose queue is not known counts
as the mean of the known ones: never best, never worst.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request
from router.scheduling.figures import filled, fresh


class LoadAwareScorer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    Attributes:
        threshold: Waiting requests from which on an endpoint scores 0.
    """

    threshold: Annotated[int, msgspec.Meta(gt=0)] = 128

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        waiting = filled([m.waiting if m else None for m in fresh(endpoints, facts)])
        limit = self.threshold
        return [0.5 * (1 - min(w, limit) / limit) for w in waiting or [0.0] * len(endpoints)]
