"""How busy an endpoint is as MindIE Motor measures it: in tokens of the requests sent there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from router.pool.endpoint import Endpoint, Role
from router.producers.facts import Facts, InFlight, Tokens

_HELD: Mapping[str | None, float] = {Role.PREFILL: 0.3, Role.DECODE: 0.0}
"""Role -> what a token that a request holds counts beside one that is still to be computed."""
_HELD_COMBINED = 0.15

_NO_LOAD = InFlight({})


def loads(endpoints: Sequence[Endpoint], facts: Facts, producer: str) -> list[float]:
    """Tokens each has still to compute, and its role's share of those its requests hold.

    Where nobody knows the tokens of prompts, the requests in flight.
    """
    in_flight = facts.get(InFlight, producer) or _NO_LOAD
    if facts.get(Tokens) is None:
        return [float(in_flight.requests.get(e.address, 0)) for e in endpoints]
    return [
        in_flight.tokens.get(e.address, 0)
        + _HELD.get(e.role, _HELD_COMBINED) * in_flight.held.get(e.address, 0)
        for e in endpoints
    ]
