"""inflight-load-producer: how many requests this router has in flight at each endpoint."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, InFlight
from router.request.types import Request
from router.scheduling.types import Decision


class InFlightLoadParameters(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """Parameters of llm-d that steer token estimates are accepted; requests are what is counted.

    Attributes:
        add_estimated_output_tokens: Accepted; has no effect.
        output_ratio: Accepted; has no effect.
        max_estimated_output_tokens: Accepted; has no effect.
        prefix_match_info_producer_name: Accepted; has no effect.
        sync_cross_replica_state: Accepted; has no effect.
    """

    add_estimated_output_tokens: bool = False
    output_ratio: Annotated[float, msgspec.Meta(ge=0)] = 1.5
    max_estimated_output_tokens: int | None = None
    prefix_match_info_producer_name: str = ""
    sync_cross_replica_state: bool = True


class InFlightLoad:
    """Counts up at the pick and down when the exchange ends, whatever the reason."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._requests: dict[str, int] = {}

    @property
    def requests(self) -> Mapping[str, int]:
        """Endpoint address -> requests in flight; an address with none is absent."""
        return self._requests

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        # The live mapping, not a copy: a pick follows without awaiting, and no one writes to it.
        facts.put(InFlight(self._requests), self._name)

    def decided(self, request: Request, facts: Facts, decision: Decision) -> _Held:
        return _Held(self._requests, decision.endpoint.address)


class _Held:
    """One request's place in the count."""

    def __init__(self, requests: dict[str, int], address: str) -> None:
        self._requests = requests
        self._address = address
        requests[address] = requests.get(address, 0) + 1

    def served_by(self, address: str) -> None:
        self.ended()
        self._address = address
        self._requests[address] = self._requests.get(address, 0) + 1

    def responded(self, status: int) -> None:
        """A response that started still computes: nothing changes before its end."""

    def ended(self) -> None:
        left = self._requests[self._address] - 1
        if left:
            self._requests[self._address] = left
        else:
            del self._requests[self._address]
