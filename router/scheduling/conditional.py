"""``Prefer: if-available``: answer from a cache that has the prompt's prefix, or not at all."""

from __future__ import annotations

from router.errors import NotCached
from router.producers.facts import Facts, PrefixMatch
from router.request.types import Request
from router.scheduling.types import Decision

HEADER = "prefer"
IF_AVAILABLE = "if-available"


def wants_cached(request: Request) -> bool:
    """The client prefers no answer to one that costs a prefill (a preference of RFC 7240)."""
    given = request.headers.get(HEADER)
    if given is None:
        return False
    preferences = given.split(",")
    return any(p.partition(";")[0].strip().lower() == IF_AVAILABLE for p in preferences)


def refuse_uncached(decision: Decision, facts: Facts, producer: str) -> None:
    """Raises NotCached where the picked endpoint holds no block of the prompt.

    A guess is no block: its prompt is still being computed. `producer` says whose match counts.
    """
    match = facts.get(PrefixMatch, producer)
    held = match.held.get(decision.endpoint.address) if match else None
    if held is None or held.blocks == 0:
        raise NotCached("no endpoint that would answer has the prompt's prefix in its cache")
