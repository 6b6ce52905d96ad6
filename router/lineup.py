"""What a configuration makes of the router: replaced as a whole, between two requests."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import msgspec

from router.producers.types import Amender, Follower, Producer
from router.request.parse import EVERY_API, Apis
from router.scheduling.types import Admitter, Answerer, Profile, ProfileHandler


class Lineup(msgspec.Struct, frozen=True, kw_only=True, dict=True):
    """Who reads, says no, states facts, decides and is told.

    Attributes:
        profiles: By name.
        handler: Chooses among them.
        producers: In the order they run.
        followers: Told of every pick beside the producers.
        admitters: Asked before every pick.
        answerers: Add to the headers of answers.
        apis: The APIs whose requests are read.
    """

    profiles: Mapping[str, Profile]
    handler: ProfileHandler
    producers: Sequence[Producer] = ()
    followers: Sequence[Follower] = ()
    admitters: Sequence[Admitter] = ()
    answerers: Sequence[Answerer] = ()
    apis: Apis = EVERY_API

    @functools.cached_property
    def told(self) -> list[Follower]:
        """Everybody who is told of a pick."""
        return [*self.producers, *self.followers]

    @functools.cached_property
    def amenders(self) -> list[Amender]:
        """Those of them who add to what the engine or the client is told."""
        return [follower for follower in self.told if isinstance(follower, Amender)]
