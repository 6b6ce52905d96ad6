"""data-parallel-profile-handler: one profile picks a rank; the host's first port passes it on."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from typing import Annotated

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request
from router.scheduling.profiles.ports import through_port
from router.scheduling.schedule import schedule
from router.scheduling.types import Decision, Profile


class DataParallelProfileHandler(
    msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"
):
    """
    Attributes:
        primary_port: Port that every request is sent to, whichever rank was picked.
    """

    primary_port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 8000

    def decide(
        self,
        request: Request,
        profiles: Mapping[str, Profile],
        endpoints: Sequence[Endpoint],
        facts: Facts,
        rng: random.Random,
    ) -> Decision:
        (profile,) = profiles.values()
        decision = Decision(schedule(profile, request, endpoints, facts, rng))
        return through_port(decision, self.primary_port)
