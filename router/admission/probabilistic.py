"""probabilistic-admitter: refuse sheddable requests by chance, the more the fuller the pool is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from router.admission import saturation
from router.admission.saturation import UtilizationLimits
from router.errors import Saturated
from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request

_Above0 = msgspec.Meta(gt=0)


class ProbabilisticAdmitter(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """A request of a negative priority is refused with the probability min(s^power x k, 1).

    s is the mean over the endpoints of max(waiting / queue threshold, KV usage / KV threshold); one
    without fresh metrics counts as full.

    Attributes:
        queue_depth_threshold: Waiting requests of a full endpoint.
        kv_cache_util_threshold: KV usage of a full endpoint.
        power: How late refusing sets in.
        k: How steeply it grows.
    """

    queue_depth_threshold: Annotated[float, _Above0] = 5.0
    kv_cache_util_threshold: Annotated[float, _Above0] = 0.8
    power: Annotated[float, _Above0] = 5.0
    k: Annotated[float, _Above0] = 300.0

    def admit(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        """Raises Saturated."""
        if request.priority >= 0:
            return
        if facts.rng.random() < self.probability(endpoints, facts):
            raise Saturated("request cannot be admitted: the pool is too full for its priority")

    def probability(self, endpoints: Sequence[Endpoint], facts: Facts) -> float:
        """That a sheddable request is refused now."""
        limits = UtilizationLimits(
            queue_depth=self.queue_depth_threshold,
            kv_usage=self.kv_cache_util_threshold,
            stale_after_s=0.0,
        )
        shares = [saturation.utilization(e.metrics, limits, facts.now) for e in endpoints]
        full: float = saturation.saturation(shares) ** self.power * self.k
        return min(full, 1.0)
