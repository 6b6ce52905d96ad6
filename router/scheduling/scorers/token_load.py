"""token-load-scorer: prefer the endpoint with the fewest tokens still to compute."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, InFlight, Uncached
from router.request.types import Request

_NOTHING = InFlight({})


class TokenLoadScorer(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """score = 1 - min(tokens in flight + uncached tokens of this request, T) / T.

    Attributes:
        queue_threshold_tokens: T.
        in_flight_load_producer_name: Producer whose counts are used; empty: the only one there is.
    """

    queue_threshold_tokens: Annotated[int, msgspec.Meta(gt=0)] = 4_194_304
    in_flight_load_producer_name: str = ""

    def needs(self) -> tuple[tuple[type, str], ...]:
        name = self.in_flight_load_producer_name
        return ((InFlight, name), (Uncached, name))

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        in_flight = facts.get(InFlight, self.in_flight_load_producer_name) or _NOTHING
        uncached = facts.get(Uncached, self.in_flight_load_producer_name)
        own = uncached.tokens if uncached else {}
        # An endpoint that just came holds nothing of the prompt.
        whole = max(own.values(), default=0)
        limit = self.queue_threshold_tokens
        loads = (in_flight.tokens.get(e.address, 0) + own.get(e.address, whole) for e in endpoints)
        return [1 - min(load, limit) / limit for load in loads]
