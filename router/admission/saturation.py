"""How full endpoints are: what detectors tell admission, and what they drop as filters.

An endpoint's share is what it uses of its limits: 1 is full, and nothing keeps it from being more.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import msgspec

from router.pool.endpoint import Endpoint, EngineMetrics
from router.producers.facts import Facts, InFlight


class Detector(Protocol):
    """Says how full a pool is."""

    def saturation(self, endpoints: Sequence[Endpoint], facts: Facts) -> float:
        """From 1 on it is saturated, and so it is without endpoints."""
        ...


class UtilizationLimits(msgspec.Struct, frozen=True):
    """What an engine says of itself, at most.

    Attributes:
        queue_depth: Waiting requests of a full endpoint.
        kv_usage: KV usage of a full endpoint.
        stale_after_s: Age from which on metrics tell nothing; at least their own `good_for_s`.
    """

    queue_depth: float
    kv_usage: float
    stale_after_s: float


class ConcurrencyLimits(msgspec.Struct, frozen=True):
    """What the router has sent to one endpoint, at most; None is no limit."""

    requests: float | None = None
    tokens: float | None = None


def utilization(
    metrics: EngineMetrics | None, limits: UtilizationLimits, now_s: float
) -> float | None:
    """One endpoint's share; None where its metrics are missing or stale."""
    if metrics is None:
        return None
    if now_s - metrics.scraped_at > max(limits.stale_after_s, metrics.good_for_s):
        return None
    shares = []
    if metrics.waiting is not None:
        shares.append(metrics.waiting / limits.queue_depth)
    if metrics.kv_usage is not None:
        shares.append(metrics.kv_usage / limits.kv_usage)
    return max(shares, default=None)


def concurrency(address: str, in_flight: InFlight, limits: ConcurrencyLimits) -> float:
    """One endpoint's share."""
    share = 0.0
    if limits.requests is not None:
        share = in_flight.requests.get(address, 0) / limits.requests
    if limits.tokens is not None:
        share = max(share, in_flight.tokens.get(address, 0) / limits.tokens)
    return share


def saturation(shares: Sequence[float | None]) -> float:
    """The mean; an endpoint of which nothing is known counts as full."""
    if not shares:
        return 1.0
    return sum(1.0 if share is None else share for share in shares) / len(shares)


def with_room(
    endpoints: Sequence[Endpoint], shares: Sequence[float | None], headroom: float
) -> list[Endpoint]:
    """Those known to be below their limits raised by `headroom`, a share of them."""
    limit = 1 + headroom
    known = zip(endpoints, shares, strict=True)
    return [endpoint for endpoint, share in known if share is not None and share < limit]
