"""utilization-detector: leave out endpoints whose queue or KV cache is full.

As the saturation detector it tells admission how full the pool is.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import msgspec

from router.admission import saturation
from router.admission.saturation import UtilizationLimits
from router.config.duration import seconds
from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request


class UtilizationDetector(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """An endpoint's share is max(waiting / queue threshold, KV usage / KV threshold).

    Attributes:
        queue_depth_threshold: Waiting requests of a full endpoint.
        kv_cache_util_threshold: KV usage of a full endpoint, above 0, at most 1.
        metrics_staleness_threshold: Age from which on metrics do not count, as a Go duration; at
            least a few intervals of scraping.
        headroom: What the filter lets through above the thresholds, as a share of them.
    """

    by_load: ClassVar[bool] = True
    why: ClassVar[str] = "its queue or KV cache is full"

    queue_depth_threshold: Annotated[int, msgspec.Meta(gt=0)] = 5
    kv_cache_util_threshold: Annotated[float, msgspec.Meta(gt=0, le=1)] = 0.8
    metrics_staleness_threshold: str = "200ms"
    headroom: Annotated[float, msgspec.Meta(ge=0)] = 0.0

    def __post_init__(self) -> None:
        seconds(self.metrics_staleness_threshold, "metricsStalenessThreshold")

    def saturation(self, endpoints: Sequence[Endpoint], facts: Facts) -> float:
        """The mean share; an endpoint without fresh metrics counts as full."""
        return saturation.saturation(self._shares(endpoints, facts))

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        """All where none has room."""
        shares = self._shares(endpoints, facts)
        return saturation.with_room(endpoints, shares, self.headroom) or endpoints

    def _shares(self, endpoints: Sequence[Endpoint], facts: Facts) -> list[float | None]:
        limits = UtilizationLimits(
            queue_depth=self.queue_depth_threshold,
            kv_usage=self.kv_cache_util_threshold,
            stale_after_s=seconds(self.metrics_staleness_threshold, "metricsStalenessThreshold"),
        )
        return [saturation.utilization(e.metrics, limits, facts.now) for e in endpoints]
