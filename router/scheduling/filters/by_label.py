"""by-label: keep endpoints by the value of one label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request


class ByLabel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """
    Attributes:
        label: The label's key.
        valid_values: Values that are kept.
        allows_no_label: Endpoints without the label are kept.
    """

    by_load: ClassVar[bool] = False
    why: ClassVar[str] = "its label has another value"

    label: str
    valid_values: tuple[str, ...] = ()
    allows_no_label: bool = False

    def __post_init__(self) -> None:
        if not self.label:
            raise ValueError("label must name a label")
        if not self.valid_values and not self.allows_no_label:
            raise ValueError("without validValues or allowsNoLabel nothing is ever kept")

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        return [endpoint for endpoint in endpoints if self._keeps(endpoint)]

    def _keeps(self, endpoint: Endpoint) -> bool:
        value = endpoint.labels.get(self.label)
        return self.allows_no_label if value is None else value in self.valid_values
