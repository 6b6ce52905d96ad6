"""single-profile-handler: the one profile decides."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence

import msgspec

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request
from router.scheduling.schedule import schedule
from router.scheduling.types import Decision, Profile


class SingleProfileHandler(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Takes no parameters; loading makes sure there is exactly one profile."""

    def decide(
        self,
        request: Request,
        profiles: Mapping[str, Profile],
        endpoints: Sequence[Endpoint],
        facts: Facts,
        rng: random.Random,
    ) -> Decision:
        (profile,) = profiles.values()
        return Decision(schedule(profile, request, endpoints, facts, rng))
