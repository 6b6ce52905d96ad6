"""session-affinity-filter: keep a session at its endpoint, as long as that is a candidate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.producers.types import Lease
from router.request.types import Request
from router.scheduling.affinity import Affinity, AffinityParameters
from router.scheduling.types import Decision


class SessionAffinityFilterParameters(AffinityParameters, frozen=True):
    """Those of both plugins."""

    def build(self) -> SessionAffinityFilter:
        """The filter; no session is known yet."""
        return SessionAffinityFilter(self.affinity())


class SessionAffinityFilter:
    """Never leaves nobody: without a session, or its endpoint, everybody passes."""

    by_load: ClassVar[bool] = False
    why: ClassVar[str] = "the session belongs to another endpoint"

    def __init__(self, affinity: Affinity) -> None:
        self._affinity = affinity

    def needs(self) -> tuple[tuple[type, str], ...]:
        return self._affinity.needs()

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        bound = self._affinity.find(request, endpoints, facts)
        return endpoints if bound is None else [bound]

    def decided(self, request: Request, facts: Facts, decision: Decision) -> Lease | None:
        self._affinity.decided(request, facts, decision)
        return None

    def amended(self, request: Request, facts: Facts, decision: Decision) -> Decision:
        return self._affinity.amended(decision)
