"""header-based-testing-filter: keep the endpoints that a request's header lists (conformance)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from router.pool.endpoint import Endpoint
from router.pool.subset import within
from router.producers.facts import Facts
from router.request.types import Request

HEADER = "test-epp-endpoint-selection"
"""``ip`` or ``ip:port``, separated by commas; of the Gateway API's conformance tests."""


class HeaderBasedTestingFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Takes no parameters."""

    by_load: ClassVar[bool] = False
    why: ClassVar[str] = "the request's header does not list it"

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        listed = request.headers.get(HEADER, "").split(",")
        return within(endpoints, (text.strip() for text in listed))
