"""active-request-scorer: prefer the endpoint with the fewest requests in flight from this router.

Counted at the pick, so a burst sees itself; scraped figures are a second old.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, InFlight
from router.request.types import Request


class ActiveRequestScorer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """c in-flight requests: 1 up to `idle_threshold`, else (max - c) / max * `max_busy_score`.

    Attributes:
        idle_threshold: Requests in flight up to which an endpoint counts as idle.
        max_busy_score: Highest score of an endpoint that is not idle, 0 to 1.
        in_flight_load_producer_name: Producer whose counts are used; empty: the only one there is.
        request_timeout: Accepted for compatibility; has no effect.
    """

    idle_threshold: Annotated[int, msgspec.Meta(ge=0)] = 0
    max_busy_score: Annotated[float, msgspec.Meta(ge=0, le=1)] = 1.0
    in_flight_load_producer_name: str = ""
    request_timeout: str = ""

    def needs(self) -> tuple[tuple[type, str], ...]:
        return ((InFlight, self.in_flight_load_producer_name),)

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        in_flight = facts.get(InFlight, self.in_flight_load_producer_name)
        if in_flight is None:
            return [1.0] * len(endpoints)
        counts = [in_flight.requests.get(e.address, 0) for e in endpoints]
        most, idle, busy = max(counts), self.idle_threshold, self.max_busy_score
        return [1.0 if c <= idle else (most - c) / most * busy for c in counts]
