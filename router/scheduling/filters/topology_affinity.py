"""topology-affinity-filter: keep what runs near the endpoint of the other stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

import msgspec

from router.pool.endpoint import Endpoint
from router.pool.topology import Nearness, TopologyLabels, nearness
from router.producers.facts import Facts, Peer
from router.request.types import Request

_DEFAULT = TopologyLabels()


class TopologyAffinityFilter(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """Keeps all where there is no other stage yet, or nobody is near enough.

    Attributes:
        min_affinity: What an endpoint must share with that one, at least.
        topology_producer_name: Whose labels say where endpoints run; empty: the only one's.
    """

    by_load: ClassVar[bool] = False
    why: ClassVar[str] = "it runs too far from the other stage"

    min_affinity: Literal["host", "rack", "zone", "region"] = "host"
    topology_producer_name: str = ""

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        peer = facts.get(Peer)
        if peer is None:
            return endpoints
        labels = facts.get(TopologyLabels, self.topology_producer_name) or _DEFAULT
        enough = Nearness[self.min_affinity.upper()]
        return [e for e in endpoints if nearness(e, peer.endpoint, labels) >= enough] or endpoints
