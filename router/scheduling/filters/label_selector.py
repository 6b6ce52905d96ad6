"""label-selector-filter: keep what a Kubernetes label selector matches."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request


class Expression(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One requirement of a selector.

    Attributes:
        key: The label's key.
        operator: ``NotIn`` holds for an endpoint without the label, too (Kubernetes).
        values: What ``In`` and ``NotIn`` compare with; the others take none.
    """

    key: str
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    values: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.key:
            raise ValueError("key must name a label")
        if (self.operator in ("In", "NotIn")) != bool(self.values):
            raise ValueError("In and NotIn take values, Exists and DoesNotExist take none")

    def holds(self, labels: Mapping[str, str]) -> bool:
        """Whether labels meet it."""
        value = labels.get(self.key)
        match self.operator:
            case "In":
                return value in self.values
            case "NotIn":
                return value not in self.values
            case "Exists":
                return value is not None
            case "DoesNotExist":
                return value is None


class LabelSelectorFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """All requirements must hold; without any, everything matches.

    Attributes:
        match_labels: Labels and the values they must have.
        match_expressions: Further requirements.
    """

    by_load: ClassVar[bool] = False
    why: ClassVar[str] = "its labels do not match the selector"

    match_labels: Mapping[str, str] = {}
    match_expressions: tuple[Expression, ...] = ()

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        return [endpoint for endpoint in endpoints if self._matches(endpoint.labels)]

    def _matches(self, labels: Mapping[str, str]) -> bool:
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            expression.holds(labels) for expression in self.match_expressions
        )
