"""header-label-affinity-scorer: prefer endpoints with a label that a request's header names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request


class HeaderLabelAffinityScorer(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """1 where the label's value is the header's, else 0.

    Attributes:
        header_name: The header; letter case does not matter.
        label_key: The label.
    """

    header_name: Annotated[str, msgspec.Meta(min_length=1)]
    label_key: Annotated[str, msgspec.Meta(min_length=1)]

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        wanted = request.headers.get(self.header_name.lower())
        if wanted is None:
            return [0.0] * len(endpoints)
        return [float(endpoint.labels.get(self.label_key) == wanted) for endpoint in endpoints]
