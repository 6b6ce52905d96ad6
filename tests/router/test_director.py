"""One request through everything but the network."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import msgspec
import pytest

from router.director import Director
from router.errors import BadRequest, NoEndpoints, NotCached, RouterError, Saturated, ShuttingDown
from router.extproc import headers
from router.lineup import Lineup
from router.policy import Policy
from router.pool.discovery.schema import ModelRewrite, RewriteTarget
from router.pool.endpoint import Endpoint, EngineMetrics, ServedModels
from router.pool.pool import Pool
from router.producers.facts import Facts, FairnessId, PrefixMatch, Tokens, Untokenized
from router.producers.inflight import InFlightLoad
from router.producers.types import Follower
from router.request.types import Request
from router.request.usage import Usage
from router.routed import Reading, Routed
from router.scheduling.pickers.max_score import MaxScorePicker
from router.scheduling.profiles.single import SingleProfileHandler
from router.scheduling.schedule import schedule
from router.scheduling.scorers.active_request import ActiveRequestScorer
from router.scheduling.scorers.prefix_cache import PrefixCacheScorer
from router.scheduling.types import (
    Admitter,
    Decision,
    Dropped,
    NamedFilter,
    NamedScorer,
    Profile,
    ProfileHandler,
)
from router.telemetry.decisions import MAX_ADDRESSES, Record
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


async def test_the_endpoint_that_holds_the_prefix_is_picked_and_the_record_says_why() -> None:
    fixture = Fixture("a:1", "b:1", known=Known(MATCH))
    routed = await fixture.route(request_id="r7")
    assert routed.destination == "b:1"
    assert routed.headers == {}
    (record,) = fixture.notes.routed_
    assert (record.request_id, record.kind, record.model) == ("r7", "completion", "m")
    assert record.totals == {"a:1": 2.0, "b:1": 5.0}
    assert record.prompt_tokens == 70
    assert record.predicted_cached_tokens == 64
    assert record.prefix == MATCH.held
    assert record.took_ms == 500


async def test_the_record_names_weights_candidates_and_what_each_stage_took() -> None:
    ticks = iter(range(100))
    fixture = Fixture("a:1", "b:1", known=Known(MATCH), timer=lambda: next(ticks) / 1000)
    await fixture.route()
    (record,) = fixture.notes.routed_
    assert (record.profile, record.candidates) == ("default", 2)
    assert record.weights == {"prefix": 3.0, "active": 2.0}
    assert (record.total_blocks, record.block_size) == (4, 16)
    assert list(record.times_ms) == ["parse", "known", "load", "wait", "schedule"]
    assert list(record.times_ms.values()) == pytest.approx([1] * 5)


async def test_what_had_to_be_done_without_is_named() -> None:
    class Silent(Known):
        async def produce(self, request: Request, endpoints: Any, facts: Facts) -> None:
            facts.put(Untokenized("timeout"), "tokens")

    fixture = Fixture("a:1", known=Silent())
    await fixture.route()
    fixture.pool.scraped("a:1", EngineMetrics(scraped_at=1.0))
    await fixture.route()
    fixture.pool.scraped("a:1", EngineMetrics(scraped_at=fixture.seconds))
    for _ in range(3):
        fixture.director.outliers.answered("a:1", 503)
    await fixture.route()
    never, old, failing = (record.fallbacks for record in fixture.notes.routed_)
    assert never == ("no token ids: timeout", "its load is not known: it was never scraped")
    assert old[1:] == ("its load is not known: its last scrape is old",)
    assert failing[1:] == ("its last answers failed, and nobody else was left",)


async def test_the_record_of_a_split_request_says_who_computes_the_prompt_and_why() -> None:
    fixture = Fixture("a:1", handler=Elsewhere(), known=Known(MATCH))
    await fixture.route()
    (record,) = fixture.notes.routed_
    assert record.encode is None
    assert record.prefill is not None
    assert (record.prefill.profile, record.prefill.endpoints) == ("prefill", ("c:1",))
    assert record.predicted_cached_tokens == 0


async def test_a_record_of_a_large_pool_names_the_best_candidates_only() -> None:
    addresses = [f"e{i:04}:1" for i in range(1000)]
    held = {a: make.held(i % 4) for i, a in enumerate(addresses)}
    fixture = Fixture(*addresses, known=Known(PrefixMatch(4, 16, held)))
    routed = await fixture.route()
    (record,) = fixture.notes.routed_
    assert record.candidates == 1000
    assert MAX_ADDRESSES <= len(record.totals) <= MAX_ADDRESSES + 1
    assert all(len(by) == len(record.totals) for by in record.scores.values())
    assert routed.endpoint in record.totals
    assert min(record.totals.values()) == pytest.approx(3 * 0.75 + 2)
    assert len(msgspec.json.encode(record)) < 40_000


async def test_a_client_is_told_why_in_a_header_where_that_is_open() -> None:
    fixture = Fixture("a:1", "b:1", known=Known(MATCH), explains=True)
    headers_sent = {**POST, "x-warmroute-explain": "1"}
    routed = await fixture.director.route(headers_sent, BODY)
    fixture.director.responded(routed, 500, {})
    assert routed.answer_headers["x-warmroute-decision"] == (
        "endpoint=b:1; profile=default; candidates=2/2; total=5.000; blocks=4/4; cached=64; "
        "tokens=70; took-ms=500.00"
    )
    assert (await fixture.route()).answer_headers == {}
    closed = Fixture("a:1", "b:1", known=Known(MATCH))
    assert (await closed.director.route(headers_sent, BODY)).answer_headers == {}


async def test_an_adapter_goes_only_where_it_is_listed_and_the_record_names_the_others() -> None:
    fixture = Fixture("a:1", "b:1", known=Known(MATCH))
    fixture.pool.served("a:1", ServedModels(names=("m",), adapters={"sql": "m"}))
    fixture.pool.served("b:1", ServedModels(names=("m",)))
    body = b'{"model": "sql", "prompt": "hi"}'
    for _ in range(3):  # b:1 holds the prefix and would win
        assert (await fixture.route(body)).destination == "a:1"
    assert fixture.notes.routed_[0].dropped == (
        Dropped("served-models", ("b:1",), "it does not list the model"),
    )
    assert (await fixture.route()).destination == "b:1"
    assert fixture.notes.routed_[-1].dropped == ()


async def test_a_model_whose_only_endpoints_are_down_is_refused_by_name() -> None:
    fixture = Fixture("a:1", "b:1")
    fixture.pool.served("a:1", ServedModels(names=("m",)))
    fixture.pool.served("b:1", ServedModels(names=("o",)))
    fixture.pool.scraped("a:1", EngineMetrics())
    for _ in range(3):
        fixture.pool.scrape_failed("a:1")
    with pytest.raises(NoEndpoints, match="serves 'm'"):
        await fixture.route()


async def test_the_last_token_is_never_expected_to_be_reused() -> None:
    fixture = Fixture("b:1", known=Known(MATCH, tokens=64))
    await fixture.route()
    assert fixture.notes.routed_[0].predicted_cached_tokens == 48


async def test_of_a_prompt_that_goes_on_all_known_blocks_may_be_reused() -> None:
    fixture = Fixture("b:1", known=Known(MATCH, tokens=64, partial=True))
    await fixture.route()
    (record,) = fixture.notes.routed_
    assert (record.prompt_tokens, record.predicted_cached_tokens) == (None, 64)


async def test_a_request_without_an_id_gets_one() -> None:
    fixture = Fixture("a:1")
    first, second = await fixture.route(), await fixture.route()
    assert len(first.headers["x-request-id"]) == 32
    assert first.headers != second.headers


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


async def test_what_a_handler_decides_reaches_the_proxy_and_the_producers() -> None:
    fixture = Fixture("a:1", handler=Elsewhere())
    routed = await fixture.route(request_id="r")
    assert routed.destination == "a:9,a:8"
    assert routed.headers == {"x-prefiller-host-port": "c:1"}
    assert fixture.load.requests == {"a:1": 1, "c:1": 1}


async def test_whoever_follows_picks_hears_of_them_and_of_their_ends() -> None:
    follower = Known()
    fixture = Fixture("a:1", followers=[follower])
    fixture.director.ended(await fixture.route())
    assert follower.told == ["decided a:1", "ended"]


class Full:
    """Lets nobody in."""

    def admit(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        raise Saturated(f"no room for {request.model} on {len(endpoints)}")


async def test_an_admitter_turns_requests_away_before_anything_is_picked() -> None:
    fixture = Fixture("a:1", admitters=[Full()])
    with pytest.raises(Saturated, match="no room for m on 1"):
        await fixture.route()
    assert fixture.load.requests == {}
    ((record, _),) = fixture.notes.refused_
    assert record.endpoint is None


async def test_a_burst_spreads_because_picks_count_at_once() -> None:
    fixture = Fixture("a:1", "b:1", "c:1", "d:1")
    routed = [await fixture.route() for _ in range(8)]
    assert fixture.load.requests == dict.fromkeys(("a:1", "b:1", "c:1", "d:1"), 2)
    for each in routed:
        fixture.director.ended(each)
    assert fixture.load.requests == {}


async def test_leases_hear_of_the_answer_and_of_the_end() -> None:
    fixture = Fixture("a:1")
    routed = await fixture.route()
    headers = {"content-type": "application/json"}
    assert fixture.director.responded(routed, 200, headers) is Reading.COPY
    fixture.director.chunk(routed, b'{"usage":{"prompt_tokens":70,', end=False)
    fixture.director.chunk(routed, b'"completion_tokens":2}}', end=True)
    fixture.director.ended(routed)
    assert fixture.known.told == ["decided a:1", "responded 200", "ended"]
    (record,) = fixture.notes.ended_
    assert (record.status, record.usage, record.completed) == (200, Usage(70, 2), True)
    assert record.duration_ms is not None


async def test_an_unanswered_request_ends_incomplete() -> None:
    fixture = Fixture("a:1")
    fixture.director.ended(await fixture.route())
    assert fixture.known.told == ["decided a:1", "ended"]
    assert not fixture.notes.ended_[0].completed


@pytest.mark.parametrize(("status", "read"), [(200, True), (503, False)])
async def test_only_good_answers_are_read(status: int, read: bool) -> None:
    fixture = Fixture("a:1")
    routed = await fixture.route()
    reading = fixture.director.responded(routed, status, {})
    assert reading is (Reading.COPY if read else Reading.NOTHING)


async def test_an_answer_that_tells_no_usage_is_not_read() -> None:
    fixture = Fixture("a:1")
    routed = await fixture.route(b'{"prompt": "hi", "stream": true}')
    assert fixture.director.responded(routed, 200, {}) is Reading.NOTHING


@pytest.mark.parametrize(("sample", "least", "most"), [(0, 0, 0), (1, 400, 400), (4, 60, 140)])
async def test_usage_is_read_of_a_share_of_requests(sample: int, least: int, most: int) -> None:
    fixture = Fixture("a:1", usage_sample=sample)
    read = 0
    for _ in range(400):
        routed = await fixture.route()
        read += fixture.director.responded(routed, 200, {}) is Reading.COPY
    assert least <= read <= most


@pytest.mark.parametrize(
    ("body", "addresses", "error"),
    [(b"{", ("a:1",), BadRequest), (BODY, (), NoEndpoints)],
    ids=["bad-body", "empty-pool"],
)
async def test_a_refused_request_is_told_and_holds_nothing(
    body: bytes, addresses: tuple[str, ...], error: type[RouterError]
) -> None:
    fixture = Fixture(*addresses)
    with pytest.raises(error):
        await fixture.route(body)
    ((record, refused),) = fixture.notes.refused_
    assert isinstance(refused, error)
    assert record.refused == str(refused)
    assert record.kind == "completion"
    assert fixture.known.told == []
    assert fixture.load.requests == {}


async def test_a_draining_router_takes_nothing_new() -> None:
    fixture = Fixture("a:1")
    fixture.director.draining = True
    with pytest.raises(ShuttingDown):
        await fixture.route()


async def test_an_endpoint_that_left_while_facts_were_gathered_is_not_picked() -> None:
    fixture = Fixture("a:1", "b:1")

    class Leaves(Known):
        async def produce(self, request: Request, endpoints: Any, facts: Facts) -> None:
            fixture.pool.replace([make.endpoint("b:1")])

    lineup = fixture.director.lineup
    fixture.director.lineup = msgspec.structs.replace(lineup, producers=[Leaves()])
    assert (await fixture.route()).destination == "b:1"


async def test_an_endpoint_whose_answers_fail_is_left_while_others_exist() -> None:
    fixture = Fixture("a:1", "b:1", known=Known(MATCH))
    for _ in range(3):
        routed = await fixture.route()
        assert routed.destination == "b:1"
        fixture.director.responded(routed, 503, {})
        fixture.director.ended(routed)
    assert (await fixture.route()).destination == "a:1"


async def test_a_request_that_wants_a_cached_answer_is_refused_where_there_is_none() -> None:
    fixture = Fixture("a:1", "b:1", known=Known(MATCH))
    headers = {**POST, "prefer": "if-available"}
    assert (await fixture.director.route(headers, BODY)).destination == "b:1"
    fixture.known.match = PrefixMatch(4, 16, {})
    with pytest.raises(NotCached):
        await fixture.director.route(headers, BODY)
    assert len(fixture.notes.refused_) == 1
    assert await fixture.route()


async def test_names_of_any_length_are_kept_short() -> None:
    fixture = Fixture("a:1")
    body = msgspec.json.encode({"model": "m" * 1_000_000, "prompt": "x"})
    routed = await fixture.route(body, request_id="r" * 5000)
    assert routed.headers == {}
    assert (len(routed.record.model), len(routed.record.request_id)) == (256, 256)


async def test_a_large_body_is_read_aside() -> None:
    fixture = Fixture("a:1")
    aside: list[int] = []

    async def run(read: Callable[[], Request]) -> Request:
        aside.append(1)
        return read()

    fixture.director._aside = run
    await fixture.route(BODY)
    assert aside == []
    await fixture.route(msgspec.json.encode({"prompt": "x" * 1024 * 1024}))
    assert aside == [1]


class Amending(Known):
    """Adds a header for the engine and one for the client."""

    def amended(self, request: Request, facts: Facts, decision: Decision) -> Decision:
        there = decision.endpoint.address
        return msgspec.structs.replace(
            decision, headers={"x-engine": there}, response_headers={"x-client": there}
        )


async def test_what_is_added_once_the_pick_is_known_reaches_engine_and_client() -> None:
    fixture = Fixture("a:1", followers=[Amending()])
    routed = await fixture.route(request_id="r1")
    assert routed.headers == {"x-engine": "a:1"}
    assert routed.answer_headers == {}
    fixture.director.responded(routed, 200, {})
    assert routed.answer_headers == {"x-client": "a:1"}


async def test_a_client_is_not_led_back_to_who_failed_or_could_not_be_reached() -> None:
    fixture = Fixture("a:1", "b:1", known=Known(MATCH), followers=[Amending()])
    for status, served in ((503, ""), (200, "a:1")):
        routed = await fixture.route()
        assert routed.endpoint == "b:1"
        fixture.director.responded(routed, status, {}, served=served)
        assert routed.answer_headers == {}


@pytest.mark.parametrize(
    ("sent", "stated", "account"),
    [
        ({}, None, "default-flow"),
        ({}, "agent", "agent"),
        ({"x-gateway-inference-fairness-id": "older"}, "agent", "older"),
        (
            {"x-gateway-inference-fairness-id": "older", "x-llm-d-inference-fairness-id": "new"},
            None,
            "new",
        ),
    ],
)
async def test_the_record_says_on_whose_account_a_request_goes(
    sent: dict[str, str], stated: str | None, account: str
) -> None:
    class Agent(Known):
        async def produce(
            self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
        ) -> None:
            if stated is not None:
                facts.put(FairnessId(stated), "agent")

    fixture = Fixture("a:1", known=Agent())
    await fixture.director.route({**POST, **sent}, BODY)
    assert fixture.notes.routed_[0].fairness_id == account


async def test_facts_know_when_the_decision_is_made() -> None:
    times = []

    class Timed(Known):
        def decided(self, request: Request, facts: Facts, decision: Decision) -> Known:
            times.append(facts.now)
            return super().decided(request, facts, decision)

    fixture = Fixture("a:1", known=Timed())
    await fixture.route()
    assert times == [fixture.notes.routed_[0].at + 0.25]


async def test_a_rule_sends_the_request_to_another_model() -> None:
    fixture = Fixture("a:1")
    fixture.rules = (ModelRewrite(targets=(RewriteTarget(model_rewrite="t"),)),)
    routed = await fixture.route(b'{"prompt": "hi", "model": "m"}')
    assert routed.body == b'{"prompt": "hi", "model": "t"}'
    record = routed.record
    assert (record.model, record.target_model, record.rewritten_by) == (
        "m",
        "t",
        "modelRewrites[0]",
    )


@pytest.mark.parametrize("name", headers.MODEL_REWRITE)
async def test_a_header_sends_the_request_to_another_model(name: str) -> None:
    fixture = Fixture("a:1")
    wanted = "m\N{LATIN SMALL LETTER U WITH DIAERESIS}".encode().decode("latin-1")
    routed = await fixture.director.route({**POST, name: wanted}, BODY)
    assert routed.record.target_model == "m\N{LATIN SMALL LETTER U WITH DIAERESIS}"
    assert routed.record.rewritten_by == "header"


async def test_without_a_rewrite_the_body_goes_on_as_it_is() -> None:
    routed = await Fixture("a:1").route()
    assert routed.body is None
    assert (routed.record.target_model, routed.record.rewritten_by) == ("m", "")


async def test_a_body_that_is_not_seen_cannot_be_rewritten() -> None:
    fixture = Fixture("a:1")
    fixture.rules = (ModelRewrite(targets=(RewriteTarget(model_rewrite="t"),)),)
    assert (await fixture.route(None)).body is None


async def test_several_picks_are_named_best_first() -> None:
    fixture = Fixture("a:1", "b:1", "c:1", known=Known(MATCH), picks=2)
    routed = await fixture.route()
    first, second = routed.destination.split(",")
    assert first == routed.endpoint == routed.record.endpoint == "b:1"
    assert second in {"a:1", "c:1"}
    assert fixture.load.requests == {"b:1": 1}


async def test_who_stood_in_for_the_first_pick_is_held_to_account() -> None:
    fixture = Fixture("a:1", "b:1", known=Known(MATCH), picks=2)
    for _ in range(3):
        routed = await fixture.route()
        assert routed.destination == "b:1,a:1"
        fixture.director.responded(routed, 200, {}, served="a:1")
        assert fixture.load.requests == {"a:1": 1}
        assert routed.record.served == "a:1"
        fixture.director.ended(routed)
    assert fixture.known.told[:4] == ["decided b:1", "served by a:1", "responded 200", "ended"]
    # What could not be reached three times is left alone.
    assert (await fixture.route()).destination == "a:1"


@pytest.mark.parametrize("served", ["b:1", "", "elsewhere:1"])
async def test_who_is_picked_is_held_to_account_else(served: str) -> None:
    fixture = Fixture("a:1", "b:1", known=Known(MATCH))
    routed = await fixture.route()
    fixture.director.responded(routed, 200, {}, served=served)
    assert fixture.load.requests == {"b:1": 1}
    assert routed.record.served is None
    fixture.director.ended(routed)
    assert fixture.load.requests == {}


async def test_only_what_the_data_plane_allows_is_picked() -> None:
    fixture = Fixture("10.0.0.1:1", "10.0.0.2:1")
    for _ in range(5):
        routed = await fixture.director.route(POST, BODY, ("10.0.0.2",))
        assert routed.destination == "10.0.0.2:1"
    (dropped,) = routed.record.dropped
    assert (dropped.filter, dropped.addresses) == ("subset-hint", ("10.0.0.1:1",))
    for nobody in ((), ("10.0.0.9",)):
        with pytest.raises(NoEndpoints, match="data plane allows"):
            await fixture.director.route(POST, BODY, nobody)


async def test_times_are_taken_where_the_body_of_an_answer_is_seen() -> None:
    fixture = Fixture("a:1")
    routed = await fixture.route()
    fixture.director.responded(routed, 200, {"content-type": "text/event-stream"})
    for data in (b"data: 1\n\n", b"data: 2\n\n", b"data: 3\n\n", b""):
        fixture.director.chunk(routed, data, end=not data)
    fixture.director.ended(routed)
    (record,) = fixture.notes.ended_
    assert record.streamed
    assert record.first_ms == 750
    assert fixture.notes.gaps == [0.25, 0.25]


async def test_an_answer_is_given_the_clients_name_of_the_model_where_that_is_wanted() -> None:
    for wanted in (True, False):
        fixture = Fixture("a:1", usage_sample=0, rename_answers=wanted)
        fixture.rules = (ModelRewrite(targets=(RewriteTarget(model_rewrite="t"),)),)
        routed = await fixture.route()
        reading = fixture.director.responded(routed, 200, {"content-type": "application/json"})
        assert reading is (Reading.CHANGE if wanted else Reading.NOTHING)
        answer = fixture.director.chunk(routed, b'{"model": "t"}', end=True)
        assert answer == (b'{"model": "m"}' if wanted else b'{"model": "t"}')


async def test_an_answer_of_the_model_that_was_asked_for_is_left_as_it_is() -> None:
    fixture = Fixture("a:1", usage_sample=0, rename_answers=True)
    routed = await fixture.route()
    reading = fixture.director.responded(routed, 200, {"content-type": "application/json"})
    assert reading is Reading.NOTHING


async def test_hints_of_the_data_plane_can_be_ignored() -> None:
    fixture = Fixture("10.0.0.1:1", subset_hints=False)
    assert (await fixture.director.route(POST, BODY, ())).destination == "10.0.0.1:1"


@pytest.mark.parametrize(
    ("named", "priority"), [("batch", -1), ("nobody", 0), ("", 0)], ids=["known", "unknown", "none"]
)
@pytest.mark.parametrize("header", headers.OBJECTIVE)
async def test_the_objective_of_a_request_gives_its_priority(
    header: str, named: str, priority: int
) -> None:
    asked = []

    class Asks:
        def admit(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
            asked.append(request.priority)

    fixture = Fixture("a:1", admitters=[Asks()], objectives=lambda: {"batch": -1})
    await fixture.director.route({**POST, header: named}, BODY)
    assert asked == [priority]


async def test_a_new_lineup_counts_from_the_next_request_on() -> None:
    fixture = Fixture("a:1")
    old, followed = fixture.director.lineup, Follows()

    class Swaps:
        name = "swaps"

        async def produce(
            self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
        ) -> None:
            fixture.director.lineup = msgspec.structs.replace(old, followers=[followed])

        def decided(self, request: Request, facts: Facts, decision: Decision) -> None:
            return None

    fixture.director.lineup = msgspec.structs.replace(old, producers=[Swaps()])
    await fixture.route()
    assert followed.decided_ == 0
    await fixture.route()
    assert followed.decided_ == 1


class Follows:
    def __init__(self) -> None:
        self.decided_ = 0

    def decided(self, request: Request, facts: Facts, decision: Decision) -> None:
        self.decided_ += 1


@pytest.mark.parametrize("emit", [True, False])
async def test_the_data_plane_is_told_scores_only_where_asked(emit: bool) -> None:
    fixture = Fixture("a:1", "b:1", known=Known(MATCH), emit_scores=emit)
    assert (await fixture.route()).scores == ({"a:1": 2.0, "b:1": 5.0} if emit else {})


class Nobody(msgspec.Struct, frozen=True):
    """Finds everybody too busy."""

    by_load: ClassVar[bool] = True
    why: ClassVar[str] = "busy"

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        return []


async def test_the_record_of_a_refused_request_names_who_was_dropped() -> None:
    fixture = Fixture("a:1")
    lineup = fixture.director.lineup
    profile = Profile("default", (NamedFilter("load", Nobody()),), (), MaxScorePicker())
    fixture.director.lineup = msgspec.structs.replace(lineup, profiles={"default": profile})
    with pytest.raises(Saturated):
        await fixture.route()
    ((record, _),) = fixture.notes.refused_
    assert list(record.dropped) == [Dropped("load", ("a:1",), "busy")]
