"""max-score-picker: the best total wins; equal ones are drawn at random."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from router.pool.endpoint import Endpoint


class MaxScorePicker(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """
    Attributes:
        max_num_of_endpoints: How many are returned, best first; 0 or less means 1.
    """

    max_num_of_endpoints: int = 1

    def pick(
        self, endpoints: Sequence[Endpoint], scores: Sequence[float], rng: random.Random
    ) -> Sequence[Endpoint]:
        if self.max_num_of_endpoints <= 1:
            best = max(scores)
            return [rng.choice([e for e, s in zip(endpoints, scores, strict=True) if s == best])]
        order = list(range(len(endpoints)))
        rng.shuffle(order)
        order.sort(key=scores.__getitem__, reverse=True)
        return [endpoints[i] for i in order[: self.max_num_of_endpoints]]
