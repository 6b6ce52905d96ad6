"""Turns away what may wait when the pool is full: requests of a negative priority."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from router.admission.saturation import Detector
from router.errors import Saturated
from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request

FULL = 1.0
"""Saturation from which on the pool is full."""


class Gate(msgspec.Struct, frozen=True):
    """Lets every request pass whose priority is not negative.

    Attributes:
        detector: Says how full the pool is.
    """

    detector: Detector

    def admit(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        """Raises Saturated."""
        if request.priority < 0 and self.detector.saturation(endpoints, facts) >= FULL:
            raise Saturated("system saturated, sheddable request dropped")
