"""endpoint-attribute-filter: keep endpoints by a threshold on one of their attributes."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, ClassVar, Literal

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request
from router.scheduling.attributes import attribute

_OPERATORS: Mapping[str, Callable[[float, float], bool]] = {
    "LessThan": operator.lt,
    "LessThanOrEqual": operator.le,
    "GreaterThan": operator.gt,
    "GreaterThanOrEqual": operator.ge,
    "Equal": operator.eq,
    "NotEqual": operator.ne,
}


class Threshold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    Attributes:
        operator: How a kept attribute compares.
        value: With what.
    """

    operator: Literal[
        "LessThan", "LessThanOrEqual", "GreaterThan", "GreaterThanOrEqual", "Equal", "NotEqual"
    ]
    value: float


class Algorithm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """
    Attributes:
        type: There is one.
        threshold: Its parameters.
    """

    type: Literal["threshold"]
    threshold: Threshold


class EndpointAttributeFilter(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """
    Attributes:
        attribute: The attribute's key.
        algorithm: Which values are kept.
        producer: Who states it; a key has one meaning, whoever does.
        on_missing: Whether endpoints without the attribute are kept.
        fallback_on_empty: Keep all where none would be left.
    """

    by_load: ClassVar[bool] = True
    why: ClassVar[str] = "its attribute is beyond the threshold"

    attribute: Annotated[str, msgspec.Meta(min_length=1)]
    algorithm: Algorithm
    producer: str = ""
    on_missing: Literal["Pass", "Fail"] = "Pass"
    fallback_on_empty: bool = False

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        values = attribute(endpoints, self.attribute, facts)
        kept = [e for e, v in zip(endpoints, values, strict=True) if self._keeps(v)]
        return endpoints if self.fallback_on_empty and not kept else kept

    def _keeps(self, value: float | None) -> bool:
        if value is None:
            return self.on_missing == "Pass"
        threshold = self.algorithm.threshold
        return _OPERATORS[threshold.operator](value, threshold.value)
