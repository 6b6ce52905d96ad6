"""A prefix that so many requests share that one endpoint gets them all."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from router.telemetry.decisions import Record
from router.telemetry.doctor.case import Case
from router.telemetry.doctor.finding import Finding

RECENT_S = 60.0

MIN_REQUESTS = 20

HOT = 0.5
"""Share of all recent requests."""

PINNED = 0.9
"""Share of those that goes to one endpoint."""

WAITING = 4
"""Requests queued there, or in flight more than at the idlest other endpoint."""


def pinned(case: Case) -> Iterator[Finding]:
    """One endpoint queues for a prefix while others have nothing to do."""
    recent = [r for r in case.records if r.endpoint and r.at > case.now - RECENT_S]
    shared = Counter(record.prefix_id for record in recent if record.prefix_id)
    if len(recent) < MIN_REQUESTS or not shared:
        return
    prefix_id, count = shared.most_common(1)[0]
    hot = [record for record in recent if record.prefix_id == prefix_id]
    address, there = Counter(record.endpoint or "" for record in hot).most_common(1)[0]
    if count < HOT * len(recent) or there < PINNED * count:
        return
    loads = {e.address: _load(case, e.address) for e in case.endpoints if e.alive}
    here = loads.pop(address, 0)
    if not loads or here - min(loads.values()) < WAITING:
        return
    yield _finding(case, hot, address, {"load": here, "idlest": min(loads.values())}, len(recent))


def _load(case: Case, address: str) -> int:
    """Requests in flight from here, or queued as the engine says, whichever is more."""
    in_flight = max((load.requests.get(address, 0) for load in case.loads), default=0)
    metrics = next((e.metrics for e in case.endpoints if e.address == address), None)
    queued = (metrics.waiting or 0) + (metrics.running or 0) if metrics is not None else 0
    return max(in_flight, queued)


def _finding(
    case: Case, hot: list[Record], address: str, loads: dict[str, int], requests: int
) -> Finding:
    latest = hot[-1]
    return Finding(
        code="prefix-pins-endpoint",
        about=address,
        what=f"{len(hot)} of the last {requests} requests share a prefix of "
        f"{latest.predicted_cached_tokens} tokens and queue there while others are idle",
        evidence={
            "prefix_id": latest.prefix_id,
            "prefix_tokens": latest.predicted_cached_tokens,
            "requests_with_it": len(hot),
            "requests": requests,
            "its_load": loads["load"],
            "idlest_load": loads["idlest"],
        },
        fix="give load more weight against the prefix (queue-scorer, active-request-scorer), or "
        "put a load filter before it (utilization-filter, load-gate-filter)",
    )
