"""Figures of endpoints that plugins compare, and what stands in for those not known."""

from __future__ import annotations

from collections.abc import Sequence

from router.pool.endpoint import Endpoint, EngineMetrics
from router.producers.facts import Facts


def fresh(endpoints: Sequence[Endpoint], facts: Facts) -> list[EngineMetrics | None]:
    """The metrics of each endpoint; None where it was never scraped or not for too long."""
    now_s = facts.now
    return [m if (m := e.metrics) is not None and m.tell(now_s) else None for e in endpoints]


def filled(values: Sequence[float | None]) -> list[float] | None:
    """The mean of the known ones in place of those not known; None where none is known.

    So an endpoint of which nothing is known is never the best one, and never the worst.
    """
    known = [value for value in values if value is not None]
    if not known:
        return None
    if len(known) == len(values):
        return known
    # A mean of equal floats may round to just outside of them.
    mean = min(max(sum(known) / len(known), min(known)), max(known))
    return [mean if value is None else value for value in values]


def lowest_best(values: Sequence[float]) -> list[float]:
    """The lowest scores 1, the highest 0, the rest in proportion; all equal, all score 1."""
    highest, lowest = max(values), min(values)
    span = highest - lowest
    if span == 0:
        return [1.0] * len(values)
    return [(highest - value) / span for value in values]
