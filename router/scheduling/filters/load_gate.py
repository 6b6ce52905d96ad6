"""load-gate-filter: keep the least loaded endpoints (MindIE Motor)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec
from xxhash import xxh3_64_intdigest

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, InFlight, PrefixMatch
from router.request.types import Request
from router.scheduling.motor_load import loads

DEFAULT_TOP_N = 2


class LoadGateFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Of equally loaded ones those that hold more of the prompt stay, and of those any.

    Attributes:
        top_n: How many are kept; 0 means 2.
        prefix_match_info_producer_name: Producer whose match counts; empty: the first there is.
        in_flight_load_producer_name: Producer whose counts are used; empty: the only one there is.
    """

    by_load: ClassVar[bool] = True
    why: ClassVar[str] = "others have less to do"

    top_n: Annotated[int, msgspec.Meta(ge=0)] = 0
    prefix_match_info_producer_name: str = ""
    in_flight_load_producer_name: str = ""

    def needs(self) -> tuple[tuple[type, str], ...]:
        """A match is no need unless it is named: it only settles ties."""
        name = self.prefix_match_info_producer_name
        matches = ((PrefixMatch, name),) if name else ()
        return (*matches, (InFlight, self.in_flight_load_producer_name))

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        kept = self.top_n or DEFAULT_TOP_N
        if len(endpoints) <= kept:
            return endpoints
        load = loads(endpoints, facts, self.in_flight_load_producer_name)
        match = facts.get(PrefixMatch, self.prefix_match_info_producer_name)
        held = match.held if match else {}
        blocks = [h.blocks if (h := held.get(e.address)) else 0 for e in endpoints]
        order = sorted(
            range(len(endpoints)),
            key=lambda i: (load[i], -blocks[i], _lot(request, endpoints[i])),
        )
        return [endpoints[i] for i in sorted(order[:kept])]


def _lot(request: Request, endpoint: Endpoint) -> int:
    """Another one for each request, and the same each time it is drawn."""
    return xxh3_64_intdigest(f"{request.id} {endpoint.address}".encode())
