"""random-picker: anyone, whatever the totals."""

from __future__ import annotations

import random
from collections.abc import Sequence

import msgspec

from router.pool.endpoint import Endpoint


class RandomPicker(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """
    Attributes:
        max_num_of_endpoints: How many are returned; 0 or less means 1.
    """

    max_num_of_endpoints: int = 1

    def pick(
        self, endpoints: Sequence[Endpoint], scores: Sequence[float], rng: random.Random
    ) -> Sequence[Endpoint]:
        count = min(max(self.max_num_of_endpoints, 1), len(endpoints))
        return rng.sample(endpoints, count)
