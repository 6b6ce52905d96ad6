"""header-profile-handler: the request says which profile picks for it."""

from __future__ import annotations

import random
from collections.abc import Collection, Mapping, Sequence
from typing import Self

import msgspec

from router.errors import BadRequest
from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from router.request.types import Request
from router.scheduling.schedule import schedule
from router.scheduling.types import Decider, Decision, Profile


class HeaderProfileHandler(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Where there is only one profile, that one picks, whatever the request says.

    Attributes:
        header_name: Header that names the profile.
        default_profile: Profile of requests without it.
    """

    header_name: str = "epp-profile"
    default_profile: str = "decode"

    def profile_names(self, declared: Collection[str]) -> Mapping[str, str]:
        return {"defaultProfile": self.default_profile} if len(declared) > 1 else {}

    def decider_names(self) -> Mapping[str, str]:
        return {}

    def link(self, deciders: Mapping[str, Decider]) -> Self:
        return self

    def decide(
        self,
        request: Request,
        profiles: Mapping[str, Profile],
        endpoints: Sequence[Endpoint],
        facts: Facts,
        rng: random.Random,
    ) -> Decision:
        """Raises BadRequest for a name that no profile has."""
        name = request.headers.get(self.header_name.lower()) or self.default_profile
        profile = next(iter(profiles.values())) if len(profiles) == 1 else profiles.get(name)
        if profile is None:
            known = ", ".join(profiles)
            raise BadRequest(f"no profile {name!r} in `{self.header_name}`; there are: {known}")
        return Decision(schedule(profile, request, endpoints, facts, rng))
