"""topology-extractor: which labels say where endpoints run."""

from __future__ import annotations

from collections.abc import Sequence

from router.pool.endpoint import Endpoint
from router.pool.topology import TopologyLabels
from router.producers.facts import Facts
from router.request.types import Request
from router.scheduling.types import Decision


class Topology:
    """States TopologyLabels."""

    def __init__(self, name: str, labels: TopologyLabels) -> None:
        self.name = name
        self._labels = labels

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        facts.put(self._labels, self.name)

    def decided(self, request: Request, facts: Facts, decision: Decision) -> None:
        """Labels do not depend on picks."""
