"""header-based-testing-filter: keep the endpoints a test names in a header."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request

HEADER = "test-epp-endpoint-selection"
"""A list of ``ip`` or ``ip:port`` (conformance tests of the Gateway API Inference Extension)."""


class HeaderBasedTestingFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Takes no parameters; without the header nobody is kept."""

    by_load: ClassVar[bool] = False

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        named = {part.strip() for part in request.headers.get(HEADER, "").split(",")}
        return [e for e in endpoints if {e.address, _ip(e.address)} & named]


def _ip(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")
