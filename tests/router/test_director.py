"""One request through everything but the network."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import pytest

from router.errors import BadRequest, NoEndpoints, NotCached, RouterError, Saturated, ShuttingDown
from router.extproc import headers
from router.pool.discovery.schema import ModelRewrite, RewriteTarget
from router.pool.endpoint import Endpoint, EngineMetrics, ServedModels
from router.producers.facts import Facts, PrefixMatch
from router.request.types import Request
from router.scheduling.types import (
    Decision,
    Dropped,
)
from tests.router.directing import BODY, MATCH, Elsewhere, Fixture, Known
from tests.support import make
from tests.support.envoy_messages import POST


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


async def test_a_request_without_an_id_gets_one() -> None:
    fixture = Fixture("a:1")
    first, second = await fixture.route(), await fixture.route()
    assert len(first.headers["x-request-id"]) == 32
    assert first.headers != second.headers


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
    assert record.status == error.status
    assert record.took_ms > 0
    assert record.duration_ms is None
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
