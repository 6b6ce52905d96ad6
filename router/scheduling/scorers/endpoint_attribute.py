"""endpoint-attribute-scorer: rate endpoints by one of their attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request
from router.scheduling.attributes import attribute


class FixedRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    Attributes:
        min: Value at one end of the scores.
        max: Value at the other end; what lies beyond counts as the end.
    """

    min: float
    max: float

    def __post_init__(self) -> None:
        if self.min >= self.max:
            raise ValueError("min must be below max")


class AdaptiveRange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The range of the candidates' own values. Takes no parameters."""


class Normalization(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """
    Attributes:
        fixed_range: The range is given.
        adaptive_range: The range is that of the candidates; the default.
    """

    fixed_range: FixedRange | None = None
    adaptive_range: AdaptiveRange | None = None

    def __post_init__(self) -> None:
        if self.fixed_range is not None and self.adaptive_range is not None:
            raise ValueError("name one range: fixedRange or adaptiveRange")


class Algorithm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    Attributes:
        type: Which end of the range scores 1.
        normalization: What the range is.
    """

    type: Literal["linear_lower_is_better", "linear_higher_is_better"]
    normalization: Normalization = Normalization()


class EndpointAttributeScorer(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """Linear between the ends of a range; an endpoint without the attribute scores 0.

    Attributes:
        attribute_key: The attribute's key.
        algorithm: How values become scores.
        producer: Who states it; a key has one meaning, whoever does.
    """

    attribute_key: Annotated[str, msgspec.Meta(min_length=1)]
    algorithm: Algorithm
    producer: str = ""

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        values = attribute(endpoints, self.attribute_key, facts)
        known = [value for value in values if value is not None]
        if not known:
            return [0.0] * len(endpoints)
        fixed = self.algorithm.normalization.fixed_range
        low, high = (fixed.min, fixed.max) if fixed else (min(known), max(known))
        return [0.0 if value is None else self._score(value, low, high) for value in values]

    def _score(self, value: float, low: float, high: float) -> float:
        if low == high:
            return 1.0
        share = min(max((value - low) / (high - low), 0.0), 1.0)
        return 1 - share if self.algorithm.type == "linear_lower_is_better" else share
