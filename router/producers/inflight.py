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
        return _Held(self._requests, *(holder.address for holder in decision.holders))


class _Held:
    """One request's place in the count: where it is answered and, until then, where its prompt is
    computed."""

    def __init__(self, requests: dict[str, int], *addresses: str) -> None:
        self._requests = requests
        self._addresses = list(addresses)
        for address in addresses:
            requests[address] = requests.get(address, 0) + 1

    def served_by(self, address: str) -> None:
        self._leave(self._addresses[0])
        self._addresses[0] = address
        self._requests[address] = self._requests.get(address, 0) + 1

    def responded(self, status: int) -> None:
        """A response that started is computed on where it is answered, until its end."""
        while len(self._addresses) > 1:
            self._leave(self._addresses.pop())

    def ended(self) -> None:
        while self._addresses:
            self._leave(self._addresses.pop())

    def _leave(self, address: str) -> None:
        left = self._requests[address] - 1
        if left:
            self._requests[address] = left
        else:
            del self._requests[address]
