"""What becomes of a request's answer."""

from __future__ import annotations

import pytest

from router.pool.discovery.schema import ModelRewrite, RewriteTarget
from router.request.usage import Usage
from router.routed import Reading
from tests.router.directing import MATCH, Amending, Fixture, Known


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


async def test_an_answer_that_is_read_is_complete_once_its_last_piece_came() -> None:
    fixture = Fixture("a:1")
    for pieces in (0, 1, 2):
        routed = await fixture.route()
        fixture.director.responded(routed, 200, {"content-type": "text/event-stream"})
        for number in range(pieces):
            fixture.director.chunk(routed, b"data: {}\n\n", end=number == 1)
        fixture.director.ended(routed)
    assert [record.completed for record in fixture.notes.ended_] == [False, False, True]


async def test_an_answer_that_is_not_read_is_taken_to_be_complete() -> None:
    fixture = Fixture("a:1", usage_sample=0)
    routed = await fixture.route()
    fixture.director.responded(routed, 200, {})
    fixture.director.ended(routed)
    assert fixture.notes.ended_[0].completed


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
