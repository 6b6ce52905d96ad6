"""near-max-picker: anyone whose total is close to the best, so that near ties spread, too."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Annotated

import msgspec

from router.pool.endpoint import Endpoint


class NearMaxPicker(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """
    Attributes:
        tolerance: How far below the best total one may lie to be drawn like it.
        max_num_of_endpoints: How many are returned: those drawn, then the others, best first; 0 or
            less means 1.
    """

    tolerance: Annotated[float, msgspec.Meta(ge=0)] = 0.02
    max_num_of_endpoints: int = 1

    def pick(
        self, endpoints: Sequence[Endpoint], scores: Sequence[float], rng: random.Random
    ) -> Sequence[Endpoint]:
        enough = max(scores) - self.tolerance
        if self.max_num_of_endpoints <= 1:
            return [rng.choice([e for e, s in zip(endpoints, scores, strict=True) if s >= enough])]
        order = list(range(len(endpoints)))
        rng.shuffle(order)
        order.sort(key=lambda i: min(scores[i], enough), reverse=True)
        return [endpoints[i] for i in order[: self.max_num_of_endpoints]]
