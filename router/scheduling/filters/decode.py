"""decode-filter: keep what can decode; an endpoint without a role label can."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import msgspec

from router.pool.endpoint import Endpoint, Role
from router.producers.facts import Facts
from router.request.types import Request

_ROLES = frozenset({None, Role.DECODE, Role.PREFILL_DECODE, Role.BOTH, Role.ENCODE_PREFILL_DECODE})


class DecodeFilter(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Takes no parameters."""

    by_load: ClassVar[bool] = False
    why: ClassVar[str] = "its role does not decode"

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        return [endpoint for endpoint in endpoints if endpoint.role in _ROLES]
