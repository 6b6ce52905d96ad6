"""queue-scorer: prefer the shortest queue.

The shortest scores 1, the longest 0, the rest in proportion; all equal, all score 1. An endpoint
whose queue is not known counts as the mean of the known ones: never best, never worst.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request
from router.scheduling.figures import filled, fresh, lowest_best


class QueueScorer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Takes no parameters."""

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        waiting = filled([m.waiting if m else None for m in fresh(endpoints, facts)])
        return [1.0] * len(endpoints) if waiting is None else lowest_best(waiting)
