"""What the record of a request says."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar

import msgspec
import pytest

from router.errors import NoEndpoints, Saturated
from router.extproc import reply
from router.pool.endpoint import Endpoint, EngineMetrics
from router.producers.facts import Facts, FairnessId, PrefixMatch, Untokenized
from router.request.types import Request
from router.scheduling.pickers.max_score import MaxScorePicker
from router.scheduling.types import (
    Dropped,
    NamedFilter,
    Profile,
)
from router.telemetry.decisions import MAX_ADDRESSES
from tests.router.directing import BODY, MATCH, Elsewhere, Fixture, Known
from tests.support import make
from tests.support.envoy_messages import POST


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


async def test_a_record_of_a_large_pool_says_what_who_computes_the_prompt_holds() -> None:
    held = {f"e{i:04}:1": make.held(1) for i in range(1000)} | {"c:1": make.held(3)}
    match = Known(PrefixMatch(4, 16, held))
    await (fixture := Fixture("a:1", handler=Elsewhere(), known=match)).route()
    (record,) = fixture.notes.routed_
    assert record.predicted_cached_tokens == 48
    assert record.prefix == {"c:1": make.held(3)}


async def test_a_client_is_told_why_in_a_header_where_that_is_open() -> None:
    fixture = Fixture("a:1", "b:1", known=Known(MATCH), explains=True)
    headers_sent = {**POST, "x-warmroute-explain": "1", "x-request-id": "r\xe9-7"}
    routed = await fixture.director.route(headers_sent, BODY)
    fixture.director.responded(routed, 500, {})
    assert routed.answer_headers["x-warmroute-decision"] == (
        "endpoint=b:1; profile=default; candidates=2/2; total=5.000; blocks=4/4; cached=64; "
        "tokens=70; took-ms=500.00; id=r?-7"
    )
    assert (await fixture.route()).answer_headers == {}
    closed = Fixture("a:1", "b:1", known=Known(MATCH))
    assert (await closed.director.route(headers_sent, BODY)).answer_headers == {}


async def test_a_client_that_asks_why_is_told_of_a_refusal_too() -> None:
    fixture = Fixture("a:1", "b:1", explains=True)
    lineup = fixture.director.lineup
    profile = Profile("default", (NamedFilter("load", Nobody()),), (), MaxScorePicker())
    fixture.director.lineup = msgspec.structs.replace(lineup, profiles={"default": profile})
    asked = {**POST, "x-warmroute-explain": "1", "x-request-id": "r7"}
    with pytest.raises(Saturated) as refused:
        await fixture.director.route(asked, BODY)
    answer = reply.refused(refused.value).immediate_response
    told = {h.header.key: h.header.raw_value for h in answer.headers.set_headers}
    assert told["x-warmroute-decision"] == b"refused=429; dropped=load:2; took-ms=500.00; id=r7"
    with pytest.raises(Saturated) as refused:
        await fixture.route()
    answer = reply.refused(refused.value).immediate_response
    assert "x-warmroute-decision" not in {h.header.key for h in answer.headers.set_headers}


async def test_the_last_token_is_never_expected_to_be_reused() -> None:
    fixture = Fixture("b:1", known=Known(MATCH, tokens=64))
    await fixture.route()
    assert fixture.notes.routed_[0].predicted_cached_tokens == 48


async def test_of_a_prompt_that_goes_on_all_known_blocks_may_be_reused() -> None:
    fixture = Fixture("b:1", known=Known(MATCH, tokens=64, partial=True))
    await fixture.route()
    (record,) = fixture.notes.routed_
    assert (record.prompt_tokens, record.predicted_cached_tokens) == (None, 64)


async def test_names_of_any_length_are_kept_short() -> None:
    fixture = Fixture("a:1")
    body = msgspec.json.encode({"model": "m" * 1_000_000, "prompt": "x"})
    routed = await fixture.route(body, request_id="r" * 5000)
    assert routed.headers == {}
    assert (len(routed.record.model), len(routed.record.request_id)) == (256, 256)


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


class Nobody(msgspec.Struct, frozen=True):
    """Finds everybody too busy."""

    by_load: ClassVar[bool] = True
    why: ClassVar[str] = "busy"

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        return []


async def test_the_record_says_how_many_prompts_the_request_holds() -> None:
    fixture = Fixture("a:1")
    counts = [
        (b'{"prompt": "hi"}', 1),
        (b'{"prompt": ["hi", "ho"]}', 2),
        (b'{"prompt": [1, 2]}', 1),
    ]
    for body, count in counts:
        assert (await fixture.route(body)).record.prompts == count


async def test_the_record_of_a_refused_request_names_who_was_dropped() -> None:
    fixture = Fixture("a:1")
    lineup = fixture.director.lineup
    profile = Profile("default", (NamedFilter("load", Nobody()),), (), MaxScorePicker())
    fixture.director.lineup = msgspec.structs.replace(lineup, profiles={"default": profile})
    with pytest.raises(Saturated):
        await fixture.route()
    ((record, _),) = fixture.notes.refused_
    assert list(record.dropped) == [Dropped("load", ("a:1",), "busy")]


async def test_what_others_took_is_no_work_of_the_router() -> None:
    seconds = [0.0]

    class Asking(Known):
        async def produce(self, request: Request, endpoints: Any, facts: Facts) -> None:
            seconds[0] += 0.001
            await gate.wait()
            seconds[0] += 0.002

    gate = asyncio.Event()
    fixture = Fixture("a:1", known=Asking(), timer=lambda: seconds[0])
    async with asyncio.TaskGroup() as group:
        task = group.create_task(fixture.route())
        await asyncio.sleep(0)
        seconds[0] += 5.0
        gate.set()
    routed = task.result()
    (record,) = fixture.notes.routed_
    assert record.times_ms["known"] == pytest.approx(5003)
    assert record.own_ms == pytest.approx(3)

    class Slow:
        def responded(self, status: int) -> None:
            seconds[0] += 0.004

        def ended(self) -> None: ...

        def served_by(self, address: str) -> None: ...

    routed.leases = [*routed.leases, Slow()]
    fixture.director.responded(routed, 200, {})
    seconds[0] += 7.0
    fixture.director.chunk(routed, b"piece", end=True)
    fixture.director.ended(routed)
    assert routed.record.answer_ms == pytest.approx(4)


async def test_a_refused_request_took_the_router_time_too() -> None:
    ticks = iter(range(100))
    fixture = Fixture(timer=lambda: next(ticks) / 1000)
    with pytest.raises(NoEndpoints):
        await fixture.route()
    ((record, _),) = fixture.notes.refused_
    assert record.own_ms is not None
    assert record.own_ms > 0
