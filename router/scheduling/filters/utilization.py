"""utilization-filter: leave out endpoints above a limit of load."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar, Literal

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, InFlight
from router.request.types import Request
from router.scheduling.figures import filled, fresh

Metric = Literal["active-requests", "running-requests", "waiting-queue", "kv-cache-utilization"]


class Condition(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """
    Attributes:
        metric: What is limited: requests in flight from this router, running or waiting in the
            engine, or its KV usage.
        max_value: The highest value that passes.
    """

    metric: Metric
    max_value: Annotated[float, msgspec.Meta(ge=0)]


class UtilizationFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An endpoint whose figure is not known counts as the mean of the known ones.

    Attributes:
        conditions: All must hold.
        fallback_on_empty: Keep all where none would be left.
        in_flight_load_producer_name: Producer whose counts are used; empty: the only one there is.
    """

    by_load: ClassVar[bool] = True
    why: ClassVar[str] = "its load is above the limit"

    conditions: tuple[Condition, ...] = ()
    fallback_on_empty: bool = False
    in_flight_load_producer_name: str = ""

    def needs(self) -> tuple[tuple[type, str], ...]:
        if all(condition.metric != "active-requests" for condition in self.conditions):
            return ()
        return ((InFlight, self.in_flight_load_producer_name),)

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        kept = list(endpoints)
        for condition in self.conditions:
            values = self._values(condition.metric, endpoints, facts)
            above = {
                e.address for e, v in zip(endpoints, values, strict=True) if v > condition.max_value
            }
            kept = [endpoint for endpoint in kept if endpoint.address not in above]
        return endpoints if self.fallback_on_empty and not kept else kept

    def _values(
        self, metric: Metric, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        if metric == "active-requests":
            in_flight = facts.get(InFlight, self.in_flight_load_producer_name)
            counts = in_flight.requests if in_flight else {}
            return [counts.get(endpoint.address, 0) for endpoint in endpoints]
        known: list[float | None]
        match metric:
            case "running-requests":
                known = [m.running if m else None for m in fresh(endpoints, facts)]
            case "waiting-queue":
                known = [m.waiting if m else None for m in fresh(endpoints, facts)]
            case "kv-cache-utilization":
                known = [m.kv_usage if m else None for m in fresh(endpoints, facts)]
        return filled(known) or [0.0] * len(endpoints)
