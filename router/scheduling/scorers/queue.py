"""queue-scorer: prefer the shortest queue.

The shortest scores 1, the longest 0, the rest in proportion; all equal, all score 1. An endpoint
whose queue is not known counts as the mean of the known ones: never best, never worst. What was
sent to an endpoint after its scrape makes its queue longer, up to the longest one that was scraped:
a difference in the figures draws no more requests than it takes to close it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.producers.unseen import Unseen
from router.request.types import Request
from router.scheduling.figures import filled, fresh, lowest_best


class QueueScorer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Takes no parameters."""

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        metrics = fresh(endpoints, facts)
        waiting = filled([m.waiting if m else None for m in metrics])
        if waiting is None:
            return [1.0] * len(endpoints)
        unseen, longest = facts.get(Unseen), max(waiting)
        if unseen is not None and min(waiting) < longest:
            waiting = [
                min(longest, queue + unseen.count(e.address, m.scraped_at if m else 0.0))
                for e, m, queue in zip(endpoints, metrics, waiting, strict=True)
            ]
        return lowest_best(waiting)
