"""always-disagg-pd-decider: every prompt is prefilled elsewhere."""

from __future__ import annotations

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request


class AlwaysDisaggPdDecider(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Takes no parameters."""

    def disaggregates(self, request: Request, endpoint: Endpoint | None, facts: Facts) -> bool:
        return True
