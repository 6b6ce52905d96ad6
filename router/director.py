"""The life of one request, in order. Read this file first.

route      parse ► candidates ► facts ► decision ► leases        (headers and body are here)
responded  the engine's response headers came
chunk      a piece of its body, where it is read
ended      the exchange is over, whatever the reason: leases are given back
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Protocol

import msgspec

from router.errors import NoEndpoints, RouterError, ShuttingDown
from router.extproc import headers as names
from router.pool.endpoint import Endpoint
from router.pool.outliers import Outliers
from router.producers.facts import Facts, FairnessId, Now, PrefixMatch, Tokens
from router.producers.types import Amender, Follower, Lease, Producer
from router.request.parse import kind_of, parse
from router.request.types import Request
from router.request.usage import UsageReader
from router.scheduling.types import Admitter, Decision, Dropped, Profile, ProfileHandler
from router.telemetry.decisions import Record

MAX_NAME = 256
"""Characters of a client's names that are kept in records, logs and metrics."""

SERVED_MODELS = "served-models"
"""What records call the step that leaves out endpoints which do not serve the model."""

DEFAULT_FLOW = "default-flow"
"""On whose account requests go that do not say it; llm-d's word."""

LARGE_BODY_BYTES = 1024 * 1024
"""From this size on a body is read beside the event loop: others' requests go on meanwhile."""


Aside = Callable[[Callable[[], Request]], Awaitable[Request]]
"""Runs a function without holding up anybody else."""


async def _at_once(read: Callable[[], Request]) -> Request:
    return read()


class Candidates(Protocol):
    """Where endpoints are read."""

    def candidates(self) -> Sequence[Endpoint]:
        """The endpoints requests may go to now."""
        ...

    def serving(self, model: str) -> Sequence[Endpoint]:
        """Those of them that may be asked for a model."""
        ...


class Observer(Protocol):
    """Is told of each request, without awaiting."""

    def routed(self, record: Record) -> None:
        """It has its endpoint."""
        ...

    def refused(self, record: Record, error: RouterError) -> None:
        """It was refused."""
        ...

    def ended(self, record: Record) -> None:
        """Its exchange is over."""
        ...


class Routed:
    """A request on its way: what Envoy is told, and what must be given back at its end."""

    def __init__(
        self,
        record: Record,
        destination: str,
        headers: Mapping[str, str],
        leases: Sequence[Lease],
        sampled: bool,
        response_headers: Mapping[str, str],
    ) -> None:
        self.record = record
        self.destination = destination
        self.headers = headers
        self.leases = leases
        self.sampled = sampled
        self.response_headers = response_headers
        self.usage: UsageReader | None = None


class Director:
    """Decides; holds no request itself."""

    def __init__(
        self,
        *,
        profiles: Mapping[str, Profile],
        handler: ProfileHandler,
        pool: Candidates,
        producers: Sequence[Producer],
        observer: Observer,
        rng: random.Random,
        clock: Callable[[], float],
        followers: Sequence[Follower] = (),
        admitters: Sequence[Admitter] = (),
        aside: Aside = _at_once,
        usage_sample: int = 50,
        allow_kv_transfer_params: bool = False,
    ) -> None:
        """`followers` are told of picks, as producers are. `clock` gives Unix time; `aside` runs
        what takes long beside the event loop.

        Of `usage_sample` requests one has its usage read (0: none).
        """
        self._profiles = profiles
        self._handler = handler
        self._pool = pool
        self._producers = producers
        self._followers = [*producers, *followers]
        self._amenders = [f for f in self._followers if isinstance(f, Amender)]
        self._admitters = admitters
        self._observer = observer
        self._rng = rng
        self._clock = clock
        self._aside = aside
        self._usage_sample = usage_sample
        self._allow_kv_transfer_params = allow_kv_transfer_params
        self.outliers = Outliers(clock)
        self.draining = False

    async def route(self, headers: Mapping[str, str], body: bytes | None) -> Routed:
        """Decide where a request goes. Raises RouterError."""
        arrived = self._clock()
        given = headers.get(names.REQUEST_ID, "")
        request_id = given or uuid.uuid4().hex
        record = Record(
            request_id=request_id[:MAX_NAME], at=arrived, kind=kind_of(headers), model=""
        )
        try:
            request = await self._parse(headers, body, request_id)
            record.kind, record.model = request.kind, request.model[:MAX_NAME]
            facts, decision = await self._decide(request)
        except RouterError as error:
            record.refused = str(error)
            self._observer.refused(record, error)
            raise
        leases = self._lease(request, facts, decision)
        record.fairness_id = _fairness_id(request, facts)[:MAX_NAME]
        _describe(record, facts, decision)
        record.took_ms = (self._clock() - arrived) * 1e3
        self._observer.routed(record)
        added = dict(decision.headers)
        if not given:
            added[names.REQUEST_ID] = request_id
        sampled = request.tells_usage and self._sampled()
        answer = decision.response_headers
        return Routed(record, decision.addresses[0], added, leases, sampled, answer)

    def responded(self, routed: Routed, status: int, headers: Mapping[str, str]) -> bool:
        """The response headers came. Returns whether its body should be read."""
        routed.record.status = status
        self.outliers.answered(routed.destination, status)
        for lease in routed.leases:
            lease.responded(status)
        if routed.sampled and status < 400:
            routed.usage = UsageReader(headers.get("content-type", ""))
        return routed.usage is not None

    def chunk(self, routed: Routed, data: bytes, *, end: bool) -> None:
        """A piece of the response body came."""
        if routed.usage is not None:
            routed.usage.feed(data, end=end)

    def ended(self, routed: Routed) -> None:
        """The exchange is over. Must be called exactly once for each Routed."""
        for lease in routed.leases:
            lease.ended()
        record = routed.record
        if routed.usage is not None:
            record.usage = routed.usage.usage
            record.usage_unreadable = routed.usage.unreadable
        record.duration_ms = (self._clock() - record.at) * 1e3
        record.completed = record.status is not None
        self._observer.ended(record)

    async def _parse(
        self, headers: Mapping[str, str], body: bytes | None, request_id: str
    ) -> Request:
        if self.draining:
            raise ShuttingDown("the router is shutting down")
        allow = self._allow_kv_transfer_params
        if body is None or len(body) < LARGE_BODY_BYTES:
            return parse(headers, body, request_id, allow_kv_transfer_params=allow)
        return await self._aside(
            lambda: parse(headers, body, request_id, allow_kv_transfer_params=allow)
        )

    async def _decide(self, request: Request) -> tuple[Facts, Decision]:
        facts = Facts(self._rng, self._clock())
        for producer in self._producers:
            await producer.produce(request, self._pool.candidates(), facts)
        facts.put(Now(self._clock()))
        # Read again: producing may have waited, and endpoints come and go meanwhile.
        candidates, serving = self._pool.candidates(), self._pool.serving(request.model)
        if candidates and not serving:
            raise NoEndpoints(f"no endpoint that serves {request.model[:MAX_NAME]!r} is available")
        endpoints = self.outliers.without(serving)
        for admitter in self._admitters:
            admitter.admit(request, endpoints, facts)
        decision = self._handler.decide(request, self._profiles, endpoints, facts, self._rng)
        for amender in self._amenders:
            decision = amender.amended(request, facts, decision)
        return facts, _with_others(decision, candidates, serving)

    def _lease(self, request: Request, facts: Facts, decision: Decision) -> list[Lease]:
        told = (follower.decided(request, facts, decision) for follower in self._followers)
        return [lease for lease in told if lease is not None]

    def _sampled(self) -> bool:
        return self._usage_sample > 0 and self._rng.randrange(self._usage_sample) == 0


def _with_others(
    decision: Decision, candidates: Sequence[Endpoint], serving: Sequence[Endpoint]
) -> Decision:
    """Name the candidates that do not serve the model among those that were dropped."""
    if len(serving) == len(candidates):
        return decision
    addresses = {endpoint.address for endpoint in serving}
    others = tuple(e.address for e in candidates if e.address not in addresses)
    return msgspec.structs.replace(decision, left_out=(Dropped(SERVED_MODELS, others),))


def _fairness_id(request: Request, facts: Facts) -> str:
    """On whose account the request goes: what it says itself counts first."""
    given = (request.headers.get(name, "") for name in names.FAIRNESS_IDS)
    stated = facts.get(FairnessId)
    return next((value for value in given if value), stated.value if stated else DEFAULT_FLOW)


def _describe(record: Record, facts: Facts, decision: Decision) -> None:
    record.endpoint = decision.endpoint.address
    primary = decision.primary
    record.totals, record.scores = primary.totals, primary.scores
    record.dropped = (*decision.left_out, *primary.dropped)
    tokens, match = facts.get(Tokens), facts.get(PrefixMatch)
    if tokens is None:
        return
    record.prompt_tokens = tokens.count
    if match is None:
        return
    record.prefix = match.held
    held = match.held.get(decision.endpoint.address)
    blocks = held.speculative if held else 0
    # An engine computes at least the last token again.
    reusable = min(blocks, max(tokens.count - 1, 0) // match.block_size)
    record.predicted_cached_tokens = reusable * match.block_size
