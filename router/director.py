"""The life of one request, in order. Read this file first.

route      parse ► candidates ► facts ► decision ► leases        (headers and body are here)
responded  the engine's response headers came
chunk      a piece of its body, where it is read
ended      the exchange is over, whatever the reason: leases are given back
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Mapping, Sequence

import msgspec

from router import describe
from router.errors import NoEndpoints, RouterError, ShuttingDown
from router.extproc import headers as names
from router.lineup import Lineup
from router.policy import Policy
from router.pool.endpoint import Endpoint
from router.pool.outliers import Outliers
from router.pool.rewrites import choose
from router.pool.subset import within
from router.producers.facts import Facts, HeldBack, KeptOut
from router.producers.types import Follower, Lease
from router.producers.unseen import UnseenRequests
from router.request.answers import renamer
from router.request.parse import Apis, api_of, parse
from router.request.rewrite import renamed
from router.request.types import Request
from router.request.usage import UsageReader
from router.routed import Reading, Routed
from router.scheduling.conditional import refuse_uncached, wants_cached
from router.scheduling.newcomers import Newcomers
from router.scheduling.types import Decision
from router.stopwatch import Stopwatch
from router.surroundings import Aside, Candidates, Observer, at_once
from router.telemetry.decisions import Record

FAILED_STATUS = 400
"""From this status on an answer holds nothing to read."""

UNREACHED_STATUS = 503
"""What an endpoint counts as that another one had to stand in for."""

LARGE_BODY_BYTES = 1024 * 1024
"""From this size on a body is read beside the event loop: others' requests go on meanwhile."""

_USUAL = Policy()


class Director:
    """Decides; holds no request itself.

    Attributes:
        lineup: Who takes part in a decision. A new one counts from the next request on.
    """

    def __init__(
        self,
        lineup: Lineup,
        pool: Candidates,
        observer: Observer,
        policy: Policy = _USUAL,
        *,
        rng: random.Random,
        clock: Callable[[], float],
        timer: Callable[[], float] | None = None,
        aside: Aside = at_once,
    ) -> None:
        """`clock` gives Unix time; `timer` gives seconds for what stages take, without one `clock`
        does; `aside` runs what takes long beside the event loop."""
        self.lineup = lineup
        self._pool = pool
        self._observer = observer
        self._policy = policy
        self._rng = rng
        self._clock = clock
        self._timer = timer or clock
        self._aside = aside
        self.outliers = Outliers(clock)
        self.prefill_outliers = Outliers(clock, scrapes_tell=False)
        self.newcomers = Newcomers(clock)
        self._unseen = UnseenRequests()
        self.draining = False

    async def route(
        self,
        headers: Mapping[str, str],
        body: bytes | None,
        subset: Sequence[str] | None = None,
    ) -> Routed:
        """Decide where a request goes. Raises RouterError.

        `subset`: the endpoints the data plane allows, as it writes them; None: all.
        """
        lineup, watch = self.lineup, Stopwatch(self._timer)
        request_id = headers.get(names.REQUEST_ID) or uuid.uuid4().hex
        record = describe.arrived(request_id, self._clock(), headers, body)
        record.times_ms = watch.times_ms
        try:
            request = await self._parse(headers, body, request_id, lineup.apis)
            watch.lap("parse")
            describe.request(record, request)
            facts, decision = await watch.watched(self._decide(lineup, request, subset, watch))
        except RouterError as error:
            self._refusal(record, error, headers)
            self._took(record, watch)
            if self._explains(headers):
                error.answer_headers = {names.DECISION: describe.short(record)}
            self._observer.refused(record, error)
            raise
        leases = _leases([*lineup.told, self._unseen], request, facts, decision)
        describe.account(record, request, facts)
        describe.decision(record, facts, decision)
        self._took(record, watch)
        self._observer.routed(record)
        added = dict(decision.headers)
        if not headers.get(names.REQUEST_ID):
            added[names.REQUEST_ID] = request_id
        sampled = request.tells_usage and self._sampled()
        routed = Routed(record, request, decision, added, leases, sampled=sampled)
        if self._policy.emit_scores and record.scores:
            routed.scores = record.totals
        if self._explains(headers):
            routed.answer_headers[names.DECISION] = describe.short(record)
        return routed

    def refused(self, headers: Mapping[str, str], error: RouterError) -> None:
        """A request was refused before there was anything to decide."""
        request_id = headers.get(names.REQUEST_ID) or uuid.uuid4().hex
        record = describe.arrived(request_id, self._clock(), headers, None)
        self._refusal(record, error, headers)
        self._observer.refused(record, error)

    def responded(
        self, routed: Routed, status: int, headers: Mapping[str, str], served: str = ""
    ) -> Reading:
        """The response headers came. `served` is who gave them, where the data plane says."""
        record, began_s = routed.record, self._timer()
        record.status = status
        content_type = headers.get("content-type", "")
        record.streamed = "text/event-stream" in content_type.lower()
        if served and served != routed.endpoint:
            self._served_by(routed, served)
        self.outliers.answered(routed.endpoint, status)
        if record.prefill is not None and (result := headers.get(names.PREFILL_RESULT)):
            failed = result != names.PREFILLED
            self.prefill_outliers.came(record.prefill.endpoints[0], failed=failed)
            routed.prefilled(failed=failed)
        for lease in routed.leases:
            lease.responded(status)
        for answerer in self.lineup.answerers:
            routed.answer_headers |= answerer.answer_headers(served)
        if status < FAILED_STATUS:
            routed.succeeded()
            if routed.sampled:
                routed.usage = UsageReader(content_type)
            if routed.models is not None and self._policy.rename_answers:
                encoding = headers.get(names.CONTENT_ENCODING, "")
                routed.renamer = renamer(content_type, encoding, *routed.models)
        # What is not shown is taken to come in full.
        routed.whole = routed.reading is Reading.NOTHING
        record.answer_ms += (self._timer() - began_s) * 1e3
        return routed.reading

    def chunk(self, routed: Routed, data: bytes, *, end: bool) -> bytes:
        """A piece of the response body came. Returns what goes on to the client."""
        began_s = self._timer()
        if data:
            routed.record.response_bytes += len(data)
            self._clocked(routed)
        routed.whole = routed.whole or end
        if routed.usage is not None:
            routed.usage.feed(data, end=end)
        passed = data if routed.renamer is None else routed.renamer.feed(data, end=end)
        routed.record.answer_ms += (self._timer() - began_s) * 1e3
        return passed

    def ended(self, routed: Routed) -> None:
        """The exchange is over. Must be called exactly once for each Routed."""
        for lease in routed.leases:
            lease.ended()
        record = routed.record
        if routed.usage is not None:
            record.usage = routed.usage.usage
            record.usage_unreadable = routed.usage.unreadable
        record.duration_ms = (self._clock() - record.at) * 1e3
        record.completed = routed.whole
        self._observer.ended(record)

    def _took(self, record: Record, watch: Stopwatch) -> None:
        record.took_ms, record.own_ms = (self._clock() - record.at) * 1e3, watch.own_ms

    def _refusal(self, record: Record, error: RouterError, headers: Mapping[str, str]) -> None:
        # What was read says itself which API it speaks.
        record.kind = record.kind or api_of(headers, self.lineup.apis)
        describe.refusal(record, error)

    def _served_by(self, routed: Routed, address: str) -> None:
        """Account for the endpoint that answers; the one picked first could not be reached."""
        if any(endpoint.address == address for endpoint in self._pool.candidates()):
            self.outliers.answered(routed.endpoint, UNREACHED_STATUS)
            routed.served_by(address)

    def _clocked(self, routed: Routed) -> None:
        now, record = self._clock(), routed.record
        if record.first_ms is None:
            record.first_ms = (now - record.at) * 1e3
        elif record.streamed:
            self._observer.gap(record, now - routed.chunk_at)
        routed.chunk_at = now

    async def _parse(
        self, headers: Mapping[str, str], body: bytes | None, request_id: str, apis: Apis
    ) -> Request:
        if self.draining:
            raise ShuttingDown("the router is shutting down")
        # A packed body may be large however short it is.
        small = body is None or len(body) < LARGE_BODY_BYTES
        if small and "content-encoding" not in headers:
            return self._read(headers, body, request_id, apis)
        return await self._aside(lambda: self._read(headers, body, request_id, apis))

    def _read(
        self, headers: Mapping[str, str], body: bytes | None, request_id: str, apis: Apis
    ) -> Request:
        request = parse(headers, body, request_id, self._policy.limits, apis)
        priority = self._policy.objectives().get(names.text_of(headers, names.OBJECTIVE), 0)
        if priority:
            request = msgspec.structs.replace(request, priority=priority)
        wanted = names.text_of(headers, names.MODEL_REWRITE)
        choice = choose(self._policy.model_rewrites(), request.model, wanted, self._rng)
        return request if choice is None else renamed(request, choice.model, choice.rule)

    async def _decide(
        self, lineup: Lineup, request: Request, subset: Sequence[str] | None, watch: Stopwatch
    ) -> tuple[Facts, Decision]:
        facts = Facts(self._rng)
        for producer in lineup.producers:
            await producer.produce(request, self._pool.candidates(), facts)
            watch.lap(producer.name)
        facts.now = self._clock()
        # Read again: producing may have waited, and endpoints come and go meanwhile.
        candidates, serving = self._pool.candidates(), self._pool.serving(request.model)
        if candidates and not serving:
            model = request.model[: describe.MAX_NAME]
            raise NoEndpoints(f"no endpoint that serves {model!r} is available")
        hinted = self._policy.subset_hints and subset is not None
        allowed = within(serving, subset or ()) if hinted else serving
        if serving and not allowed:
            raise NoEndpoints("no endpoint that the data plane allows is available")
        for admitter in lineup.admitters:
            admitter.admit(request, self.outliers.without(allowed), facts)
        watch.lap("wait")
        self._keep_out(allowed, facts)
        decision = lineup.handler.decide(request, lineup.profiles, allowed, facts, self._rng)
        if wants_cached(request):
            profile = lineup.profiles[decision.primary.profile]
            refuse_uncached(decision, facts, profile.prefix_producer)
        for amender in lineup.amenders:
            decision = amender.amended(request, facts, decision)
        watch.lap("schedule")
        decision = describe.dropped(decision, describe.SUBSET, serving, allowed)
        return facts, describe.dropped(decision, describe.SERVED_MODELS, candidates, serving)

    def _keep_out(self, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        """State whose answers failed, who just came and what no scrape shows yet."""
        facts.put(self._unseen.fact())
        failing = frozenset(e.address for e in self.outliers.out(endpoints))
        prefill = frozenset(e.address for e in self.prefill_outliers.out(endpoints))
        if failing or prefill:
            facts.put(KeptOut(failing, prefill))
        new = self.newcomers.held_back(endpoints, facts)
        if new:
            facts.put(HeldBack(new))

    def _explains(self, headers: Mapping[str, str]) -> bool:
        return self._policy.explains and names.EXPLAIN in headers

    def _sampled(self) -> bool:
        one_in = self._policy.usage_sample
        return one_in > 0 and self._rng.randrange(one_in) == 0


def _leases(
    followers: Sequence[Follower], request: Request, facts: Facts, decision: Decision
) -> list[Lease]:
    told = (follower.decided(request, facts, decision) for follower in followers)
    return [lease for lease in told if lease is not None]
