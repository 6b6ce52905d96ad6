"""weighted-random-picker: anyone, the more often the higher its total."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import msgspec

from router.pool.endpoint import Endpoint


class WeightedRandomPicker(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Weighted sampling without replacement (Efraimidis and Spirakis): the largest U^(1/total).

    A total of 0 comes after all others; all 0, all are alike.

    Attributes:
        max_num_of_endpoints: How many are returned, in the order drawn; 0 or less means 1.
    """

    max_num_of_endpoints: int = 1

    def pick(
        self, endpoints: Sequence[Endpoint], scores: Sequence[float], rng: random.Random
    ) -> Sequence[Endpoint]:
        # The logarithm of the key has the same order and does not vanish for small totals.
        keys = [math.log(1 - rng.random()) / s if s > 0 else -math.inf for s in scores]
        order = list(range(len(endpoints)))
        rng.shuffle(order)
        order.sort(key=keys.__getitem__, reverse=True)
        return [endpoints[i] for i in order[: max(self.max_num_of_endpoints, 1)]]
