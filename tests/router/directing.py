"""A director over a pool, and who takes part in its decisions."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from router.director import Director
from router.errors import RouterError
from router.lineup import Lineup
from router.policy import Policy
from router.pool.discovery.schema import ModelRewrite
from router.pool.endpoint import Endpoint
from router.pool.pool import Pool
from router.producers.facts import Facts, PrefixMatch, Tokens
from router.producers.inflight import InFlightLoad
from router.producers.types import Follower
from router.request.types import Request
from router.routed import Routed
from router.scheduling.pickers.max_score import MaxScorePicker
from router.scheduling.profiles.single import SingleProfileHandler
from router.scheduling.schedule import schedule
from router.scheduling.scorers.active_request import ActiveRequestScorer
from router.scheduling.scorers.prefix_cache import PrefixCacheScorer
from router.scheduling.types import (
    Admitter,
    Decision,
    NamedScorer,
    Profile,
    ProfileHandler,
)
from router.telemetry.decisions import Record
from tests.support import make
from tests.support.envoy_messages import POST

BODY = b'{"model": "m", "prompt": "hi"}'


class Known:
    """A producer that knows one match, and remembers what its leases were told."""

    name = "known"

    def __init__(
        self, match: PrefixMatch | None = None, tokens: int = 70, *, partial: bool = False
    ) -> None:
        self.match = match
        self.tokens = Tokens(bytes(4 * tokens), partial=partial)
        self.told: list[str] = []

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        if self.match is not None:
            facts.put(self.tokens, "tokens")
            facts.put(self.match, "prefix")

    def decided(self, request: Request, facts: Facts, decision: Decision) -> Known:
        self.told.append(f"decided {decision.endpoint.address}")
        return self

    def served_by(self, address: str) -> None:
        self.told.append(f"served by {address}")

    def responded(self, status: int) -> None:
        self.told.append(f"responded {status}")

    def prefill_failed(self) -> None:
        self.told.append("prefill failed")

    def ended(self) -> None:
        self.told.append("ended")


class Notes:
    """An observer that keeps what it is told."""

    def __init__(self) -> None:
        self.routed_: list[Record] = []
        self.refused_: list[tuple[Record, RouterError]] = []
        self.ended_: list[Record] = []
        self.gaps: list[float] = []

    def routed(self, record: Record) -> None:
        self.routed_.append(record)

    def refused(self, record: Record, error: RouterError) -> None:
        self.refused_.append((record, error))

    def gap(self, record: Record, seconds: float) -> None:
        self.gaps.append(seconds)

    def ended(self, record: Record) -> None:
        self.ended_.append(record)


class Fixture:
    """A director over a pool, with a clock that ticks by itself."""

    def __init__(
        self,
        *addresses: str,
        known: Known | None = None,
        usage_sample: int = 1,
        picks: int = 1,
        handler: ProfileHandler | None = None,
        timer: Callable[[], float] = lambda: 0.0,
        followers: Sequence[Follower] = (),
        admitters: Sequence[Admitter] = (),
        **chosen: Any,
    ) -> None:
        self.pool = Pool(make.endpoint(address) for address in addresses)
        self.known = known or Known()
        self.load = InFlightLoad("load")
        self.notes = Notes()
        self.rules: tuple[ModelRewrite, ...] = ()
        self.seconds = 1000.0
        scorers = (
            NamedScorer("prefix", PrefixCacheScorer(), 3.0),
            NamedScorer("active", ActiveRequestScorer(), 2.0),
        )
        self.director = Director(
            Lineup(
                profiles={"default": Profile("default", (), scorers, MaxScorePicker(picks))},
                handler=handler or SingleProfileHandler(),
                producers=[self.known, self.load],
                followers=followers,
                admitters=admitters,
            ),
            self.pool,
            self.notes,
            Policy(usage_sample=usage_sample, model_rewrites=lambda: self.rules, **chosen),
            rng=random.Random(3),
            clock=self._tick,
            timer=timer,
        )

    def _tick(self) -> float:
        self.seconds += 0.25
        return self.seconds

    async def route(self, body: bytes | None = BODY, request_id: str = "") -> Routed:
        headers = {"x-request-id": request_id} if request_id else {}
        return await self.director.route({**POST, **headers}, body)


MATCH = PrefixMatch(4, 16, {"b:1": make.held(3, speculative=4)})


class Elsewhere:
    """A handler that has the prompt computed at c:1, and says so."""

    def decide(
        self,
        request: Request,
        profiles: Mapping[str, Profile],
        endpoints: Sequence[Endpoint],
        facts: Facts,
        rng: random.Random,
    ) -> Decision:
        (primary,) = (schedule(p, request, endpoints, facts, rng) for p in profiles.values())
        prefill = make.outcome("c:1", profile="prefill")
        headers = {"x-prefiller-host-port": "c:1"}
        return Decision(primary, prefill=prefill, headers=headers, destinations=("a:9", "a:8"))


class Amending(Known):
    """Adds a header for the engine and one for the client."""

    def amended(self, request: Request, facts: Facts, decision: Decision) -> Decision:
        there = decision.endpoint.address
        return msgspec.structs.replace(
            decision, headers={"x-engine": there}, response_headers={"x-client": there}
        )
