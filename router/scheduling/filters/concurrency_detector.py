"""concurrency-detector: leave out endpoints that have as much in flight as they may.

As the saturation detector it tells admission how full the pool is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import msgspec

from router.admission import saturation
from router.admission.saturation import ConcurrencyLimits
from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, InFlight, Uncached
from router.request.types import Request

_NOTHING = InFlight({})


class ConcurrencyDetector(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An endpoint's share is what it has in flight / what it may have.

    Attributes:
        max_concurrency: Requests in flight of a full endpoint.
        headroom: What the filter lets through above the limits, as a share of them.
        concurrency_mode: What is limited: ``requests``, ``tokens``, or with ``hybrid`` both.
        max_token_concurrency: Tokens in flight of a full endpoint.
        in_flight_load_producer_name: Producer whose counts are used; empty: the only one there is.
    """

    by_load: ClassVar[bool] = True
    why: ClassVar[str] = "it has as much in flight as it may"

    max_concurrency: Annotated[int, msgspec.Meta(gt=0)] = 100
    headroom: Annotated[float, msgspec.Meta(ge=0)] = 0.0
    concurrency_mode: Literal["requests", "tokens", "hybrid"] = "requests"
    max_token_concurrency: Annotated[int, msgspec.Meta(gt=0)] = 1_000_000
    in_flight_load_producer_name: str = ""

    def needs(self) -> tuple[tuple[type, str], ...]:
        name = self.in_flight_load_producer_name
        if self.concurrency_mode == "requests":
            return ((InFlight, name),)
        # Tokens are counted only where somebody knows them.
        return ((InFlight, name), (Uncached, name))

    def saturation(self, endpoints: Sequence[Endpoint], facts: Facts) -> float:
        """All that is in flight over all that may be."""
        return saturation.saturation(self._shares(endpoints, facts))

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        return saturation.with_room(endpoints, self._shares(endpoints, facts), self.headroom)

    def _shares(self, endpoints: Sequence[Endpoint], facts: Facts) -> list[float]:
        limits = ConcurrencyLimits(
            requests=None if self.concurrency_mode == "tokens" else self.max_concurrency,
            tokens=None if self.concurrency_mode == "requests" else self.max_token_concurrency,
        )
        in_flight = facts.get(InFlight, self.in_flight_load_producer_name) or _NOTHING
        return [saturation.concurrency(e.address, in_flight, limits) for e in endpoints]
