"""A gRPC client plays Envoy against the real service."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from router.errors import BodyTooLarge, RouterError
from router.extproc.pb import ext_proc_pb2 as pb
from router.pool.discovery.schema import ModelRewrite, RewriteTarget
from tests.router.directing import Amending, Fixture
from tests.router.extproc.serving import CAP, PROMPT, destination, service
from tests.support import envoy_messages as envoy
from tests.support.processes import until

if TYPE_CHECKING:
    pass


async def test_a_buffered_request_is_answered_from_headers_to_the_end() -> None:
    async with service() as envoy_side:
        answers = await envoy_side.play(
            envoy.request_headers(),
            envoy.request_body(PROMPT, end=True),
            envoy.response_headers(200, content_type="application/json"),
            envoy.response_body(b'{"usage":{"prompt_tokens":3}}', end=True),
            pb.ProcessingRequest(response_trailers=pb.HttpTrailers()),
        )
        kinds = [answer.WhichOneof("response") for answer in answers]
        assert kinds == [
            "request_headers",
            "request_body",
            "response_headers",
            "response_body",
            "response_trailers",
        ]
        assert destination(answers[1]) == "a:1"
        assert answers[2].mode_override.response_body_mode == pb.STREAMED
        (record,) = envoy_side.fixture.notes.ended_
        assert record.usage is not None
        assert record.usage.prompt_tokens == 3


async def test_a_stream_that_only_shows_a_request_gets_no_answer_and_holds_nothing() -> None:
    async with service() as envoy_side:
        first = envoy.request_headers()
        first.observability_mode = True
        answers = await envoy_side.play(
            first, envoy.request_body(PROMPT, end=True), envoy.response_headers()
        )
        assert answers == []
        assert envoy_side.fixture.notes.routed_ == []
        await until(lambda: envoy_side.processor.stats.observed == 1)


async def test_a_hint_of_the_data_plane_is_followed_without_a_body_too() -> None:
    async with service(Fixture("10.0.0.1:1", "10.0.0.2:1")) as envoy_side:
        for _ in range(4):
            first = envoy.request_headers(end=True)
            envoy.allow(first, "10.0.0.2:1")
            (answer,) = await envoy_side.play(first)
            # An empty body is no completion.
            assert answer.immediate_response.status.code == 400
            first = envoy.request_headers({**envoy.POST, ":method": "GET"}, end=True)
            envoy.allow(first, "10.0.0.2:1")
            (answer,) = await envoy_side.play(first)
            assert destination(answer) == "10.0.0.2:1"
        envoy.allow(first)
        (answer,) = await envoy_side.play(first)
        assert answer.immediate_response.status.code == 503


RENAMED = b'{"id": 1, "model": "m", "x": 2}'
SENT = RENAMED.replace(b'"m"', b'"target"')


@pytest.mark.parametrize("mode", [pb.NONE, pb.STREAMED, pb.BUFFERED], ids=pb.BodySendMode.Name)
async def test_an_answer_is_renamed_in_place(mode: pb.BodySendMode.ValueType) -> None:
    fixture = Fixture("a:1", usage_sample=0, rename_answers=True)
    fixture.rules = (ModelRewrite(targets=(RewriteTarget(model_rewrite="target"),)),)
    async with service(fixture) as envoy_side:
        *_, started, first, last = await envoy_side.play(
            envoy.request_headers(response_mode=mode),
            envoy.request_body(PROMPT, end=True),
            envoy.response_headers(200, content_type="application/json", content_length="36"),
            envoy.response_body(SENT[:20], end=False),
            envoy.response_body(SENT[20:], end=True),
        )
    common = started.response_headers.response
    assert list(common.header_mutation.remove_headers) == ["content-length"]
    assert started.HasField("mode_override") is (mode == pb.NONE)
    assert first.response_body.response.body_mutation.clear_body
    assert last.response_body.response.body_mutation.body == RENAMED


async def test_a_full_duplex_answer_is_renamed_and_its_trailers_lose_nothing() -> None:
    fixture = Fixture("a:1", usage_sample=0, rename_answers=True)
    fixture.rules = (ModelRewrite(targets=(RewriteTarget(model_rewrite="target"),)),)
    async with service(fixture) as envoy_side:
        *_, chunk, rest, trailers = await envoy_side.play(
            envoy.request_headers(
                mode=pb.FULL_DUPLEX_STREAMED, response_mode=pb.FULL_DUPLEX_STREAMED
            ),
            envoy.request_body(PROMPT, end=True),
            envoy.response_headers(200, content_type="text/event-stream"),
            envoy.response_body(b"data: " + SENT + b"\nda", end=False),
            pb.ProcessingRequest(response_trailers=pb.HttpTrailers()),
        )
    pieces = [a.response_body.response.body_mutation.streamed_response for a in (chunk, rest)]
    assert [piece.body for piece in pieces] == [b"data: " + RENAMED + b"\n", b"da"]
    assert not any(piece.end_of_stream for piece in pieces)
    assert trailers.HasField("response_trailers")


async def test_an_answer_whose_body_nobody_shows_keeps_its_length() -> None:
    fixture = Fixture("a:1", usage_sample=0, rename_answers=True)
    fixture.rules = (ModelRewrite(targets=(RewriteTarget(model_rewrite="target"),)),)
    async with service(fixture) as envoy_side:
        *_, started = await envoy_side.play(
            envoy.request_headers(mode=pb.FULL_DUPLEX_STREAMED),
            envoy.request_body(PROMPT, end=True),
            envoy.response_headers(200, content_type="application/json"),
        )
    assert started == pb.ProcessingResponse(response_headers=pb.HeadersResponse())


FULL_DUPLEX = envoy.request_headers(mode=pb.FULL_DUPLEX_STREAMED)
LAST = envoy.request_body(PROMPT[20:], end=True)


@pytest.mark.parametrize(
    "messages",
    [
        pytest.param(
            [envoy.request_body(PROMPT[:20], end=False), LAST, LAST], id="last-chunk-twice"
        ),
        pytest.param(
            [envoy.request_body(PROMPT, end=False), envoy.request_body(b"", end=True)],
            id="empty-last-chunk",
        ),
        pytest.param(
            [
                envoy.request_body(PROMPT[:29], end=False),
                envoy.request_body(PROMPT[29:], end=True),
            ],
            id="cut-inside-a-character",
        ),
        pytest.param(
            [
                envoy.request_body(PROMPT[i : i + 1], end=i + 1 == len(PROMPT))
                for i in range(len(PROMPT))
            ],
            id="one-byte-each",
        ),
    ],
)
async def test_full_duplex_bodies_are_decided_once_and_sent_back_once(
    messages: list[pb.ProcessingRequest],
) -> None:
    async with service() as envoy_side:
        first, *rest = await envoy_side.play(FULL_DUPLEX, *messages)
        assert destination(first) == "a:1"
        pieces = [a.request_body.response.body_mutation.streamed_response for a in rest]
        assert b"".join(piece.body for piece in pieces) == PROMPT
        assert [piece.end_of_stream for piece in pieces] == [True]
        assert len(envoy_side.fixture.notes.routed_) == 1


async def test_request_trailers_are_answered() -> None:
    async with service() as envoy_side:
        *_, body, trailers = await envoy_side.play(
            FULL_DUPLEX, envoy.request_body(PROMPT, end=False), envoy.request_trailers()
        )
        assert not body.request_body.response.body_mutation.streamed_response.end_of_stream
        assert trailers.HasField("request_trailers")


async def test_a_bad_request_is_refused_and_ends_only_its_own_stream() -> None:
    async with service() as envoy_side:
        other = envoy_side.open()
        await other.write(envoy.request_headers())
        await other.read()
        *_, refusal = await envoy_side.play(
            envoy.request_headers(), envoy.request_body(b"{", end=True)
        )
        assert refusal.immediate_response.status.code == 400
        await other.write(envoy.request_body(PROMPT, end=True))
        answer = await other.read()
        assert isinstance(answer, pb.ProcessingResponse)
        assert destination(answer) == "a:1"
        other.cancel()


def refusals(fixture: Fixture) -> list[tuple[str, type[RouterError]]]:
    """What the observer was told, and nothing else."""
    assert (fixture.notes.routed_, fixture.notes.ended_) == ([], [])
    return [(record.kind, type(error)) for record, error in fixture.notes.refused_]


async def test_a_body_above_the_cap_is_refused_and_noted() -> None:
    fixture = Fixture("a:1")
    async with service(fixture) as envoy_side:
        (refusal,) = await envoy_side.play(
            FULL_DUPLEX,
            envoy.request_body(b"x" * CAP, end=False),
            envoy.request_body(b"x", end=True),
        )
        assert refusal.immediate_response.status.code == 413
    assert refusals(fixture) == [("completion", BodyTooLarge)]


async def test_a_413_of_envoys_own_is_answered_and_noted() -> None:
    fixture = Fixture("a:1")
    async with service(fixture) as envoy_side:
        answers = await envoy_side.play(envoy.request_headers(), envoy.response_headers(413))
        assert [a.WhichOneof("response") for a in answers] == [
            "request_headers",
            "response_headers",
        ]
    assert refusals(fixture) == [("completion", BodyTooLarge)]


async def test_another_answer_before_the_decision_is_nobodys_refusal() -> None:
    fixture = Fixture("a:1")
    async with service(fixture) as envoy_side:
        await envoy_side.play(envoy.request_headers(), envoy.response_headers(408))
    assert refusals(fixture) == []


async def test_a_fault_of_ours_is_a_500_and_no_other_stream_notices() -> None:
    fixture = Fixture("a:1")
    async with service(fixture) as envoy_side:
        lineup = fixture.director.lineup
        fixture.director.lineup = None  # type: ignore[assignment]
        *_, refusal = await envoy_side.play(
            envoy.request_headers(), envoy.request_body(PROMPT, end=True)
        )
        assert refusal.immediate_response.status.code == 500
        assert b"NoneType" not in refusal.immediate_response.body
        fixture.director.lineup = lineup
        *_, answer = await envoy_side.play(
            envoy.request_headers(), envoy.request_body(PROMPT, end=True)
        )
        assert destination(answer) == "a:1"
        assert envoy_side.processor.stats.failed == 1


@pytest.mark.parametrize(("status", "told"), [(200, {"x-client": b"a:1"}), (503, {})])
async def test_the_client_is_told_what_is_added_where_the_engine_served_it(
    status: int, told: dict[str, bytes]
) -> None:
    async with service(Fixture("a:1", followers=[Amending()])) as envoy_side:
        answers = await envoy_side.play(
            envoy.request_headers(),
            envoy.request_body(PROMPT, end=True),
            envoy.response_headers(status),
        )
        set_headers = answers[2].response_headers.response.header_mutation.set_headers
        assert {h.header.key: h.header.raw_value for h in set_headers} == told
