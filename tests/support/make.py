"""Builders: every argument optional, so that a test names only what it is about."""

from __future__ import annotations

from typing import Any

from router.pool.endpoint import Endpoint, EngineMetrics
from router.producers.facts import Facts, HeldPrefix, InFlight, PrefixMatch
from router.request.types import Kind, Request
from router.scheduling.types import Decision, Outcome


def endpoint(address: str = "10.0.0.1:8000", **fields: Any) -> Endpoint:
    """An endpoint; what is a figure of a scrape becomes its metrics."""
    figures = {k: fields.pop(k) for k in EngineMetrics.__struct_fields__ if k in fields}
    if figures:
        fields["metrics"] = EngineMetrics(**figures)
    return Endpoint(**{"name": address, "address": address, **fields})


def outcome(*targets: Endpoint | str, profile: str = "default") -> Outcome:
    """A profile that picked these."""
    picked = tuple(endpoint(t) if isinstance(t, str) else t for t in targets)
    return Outcome(profile, picked, {}, {}, ())


def decision(target: Endpoint | str = "10.0.0.1:8000", *, prefill: str | None = None) -> Decision:
    """A request that goes there, and whose prompt is computed at `prefill`."""
    other = None if prefill is None else outcome(prefill, profile="prefill")
    return Decision(outcome(target), prefill=other)


def request(**fields: Any) -> Request:
    """A completion of a model called m."""
    return Request(**{"id": "r1", "kind": Kind.COMPLETION, "model": "m", **fields})


def held(blocks: int, speculative: int | None = None, weighted: float | None = None) -> HeldPrefix:
    """So many leading blocks in GPU memory."""
    reach = blocks if speculative is None else speculative
    weight = float(reach) if weighted is None else weighted
    return HeldPrefix(blocks, {"gpu": blocks} if blocks else {}, reach, weight)


def facts(
    total_blocks: int = 0,
    block_size: int = 16,
    in_flight: dict[str, int] | None = None,
    in_flight_tokens: dict[str, int] | None = None,
    **held_by: HeldPrefix,
) -> Facts:
    """Facts of one request; `held_by` maps an endpoint's address to what it holds."""
    known = Facts()
    if total_blocks:
        known.put(PrefixMatch(total_blocks, block_size, held_by), "prefix")
    if in_flight is not None or in_flight_tokens is not None:
        known.put(InFlight(in_flight or {}, in_flight_tokens or {}), "load")
    return known
