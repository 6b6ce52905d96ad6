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


class QueueScorer(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Takes no parameters."""

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        waiting = [e.metrics.waiting if e.metrics else None for e in endpoints]
        known = [w for w in waiting if w is not None]
        if not known or max(known) == min(known):
            return [1.0] * len(endpoints)
        longest, span = max(known), max(known) - min(known)
        mean = sum(known) / len(known)
        return [(longest - (mean if w is None else w)) / span for w in waiting]
