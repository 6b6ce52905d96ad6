"""session-affinity-scorer: prefer the session's endpoint: it scores 1, the others 0."""

from __future__ import annotations

from collections.abc import Sequence

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.producers.types import Lease
from router.request.types import Request
from router.scheduling.affinity import Affinity, AffinityParameters
from router.scheduling.types import Decision


class SessionAffinityScorerParameters(AffinityParameters, frozen=True):
    """Those of both plugins."""

    def build(self) -> SessionAffinityScorer:
        """The scorer; no session is known yet."""
        return SessionAffinityScorer(self.affinity())


class SessionAffinityScorer:
    """Without a session, or its endpoint among the candidates, everybody scores 0."""

    def __init__(self, affinity: Affinity) -> None:
        self._affinity = affinity

    def needs(self) -> tuple[tuple[type, str], ...]:
        return self._affinity.needs()

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        bound = self._affinity.find(request, endpoints, facts)
        return [1.0 if endpoint is bound else 0.0 for endpoint in endpoints]

    def decided(self, request: Request, facts: Facts, decision: Decision) -> Lease | None:
        self._affinity.decided(request, facts, decision)
        return None

    def amended(self, request: Request, facts: Facts, decision: Decision) -> Decision:
        return self._affinity.amended(decision)
