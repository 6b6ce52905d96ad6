"""topology-affinity-scorer: prefer what runs near the endpoint of the other stage."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec

from router.pool.endpoint import Endpoint
from router.pool.topology import Nearness, TopologyLabels, nearness
from router.producers.facts import Facts, Peer
from router.request.types import Request

_DEFAULT = TopologyLabels()

_SCORES: Mapping[Nearness, float] = {
    Nearness.HOST: 1.0,
    Nearness.RACK: 0.2,
    Nearness.ZONE: 0.05,
    Nearness.REGION: 0.02,
    Nearness.NONE: 0.0,
}


class TopologyAffinityScorer(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """0 for all where there is no other stage yet.

    Attributes:
        topology_producer_name: Whose labels say where endpoints run; empty: the only one's.
    """

    topology_producer_name: str = ""

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        peer = facts.get(Peer)
        if peer is None:
            return [0.0] * len(endpoints)
        labels = facts.get(TopologyLabels, self.topology_producer_name) or _DEFAULT
        return [_SCORES[nearness(e, peer.endpoint, labels)] for e in endpoints]
