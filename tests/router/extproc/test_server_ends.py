"""How streams end, and what is given back then: a gRPC client plays Envoy."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc
import pytest

from router.errors import RouterError
from router.extproc import stats
from router.extproc.pb import ext_proc_pb2 as pb
from tests.router.directing import Fixture
from tests.router.extproc.serving import PROMPT, destination, service
from tests.support import envoy_messages as envoy
from tests.support.processes import until

if TYPE_CHECKING:
    pass


@pytest.mark.parametrize(
    ("sample", "mode", "end", "completed"),
    [
        (1, pb.NONE, True, True),
        (1, pb.NONE, False, False),
        (0, pb.NONE, False, True),
        (0, pb.FULL_DUPLEX_STREAMED, True, True),
        (0, pb.FULL_DUPLEX_STREAMED, False, False),
    ],
    ids=["read", "read-cut", "not-shown", "passing-through", "passing-through-cut"],
)
async def test_an_answer_is_complete_once_all_of_it_that_is_shown_was_here(
    sample: int, mode: pb.BodySendMode.ValueType, end: bool, completed: bool
) -> None:
    request = envoy.request_headers()
    request.protocol_config.response_body_mode = mode
    async with service(Fixture("a:1", usage_sample=sample)) as envoy_side:
        messages = [
            request,
            envoy.request_body(PROMPT, end=True),
            envoy.response_headers(200, content_type="application/json"),
        ]
        if sample or mode != pb.NONE:
            messages.append(envoy.response_body(b"{}", end=end))
        await envoy_side.play(*messages)
        (record,) = envoy_side.fixture.notes.ended_
        assert record.completed is completed


async def test_streams_that_end_before_their_answers_are_counted(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # On a busy machine the end of a stream can be told late.
    monkeypatch.setattr(stats, "EARLY_S", 10.0)
    async with service() as envoy_side:
        seen = envoy_side.processor.stats
        for _ in range(stats.WATCHED):
            await envoy_side.play(
                envoy.request_headers(),
                envoy.request_body(PROMPT, end=True),
                envoy.response_headers(200, content_type="text/event-stream"),
            )
        await until(lambda: seen.ends_early)
        assert seen.ended_early == stats.WATCHED


@pytest.mark.parametrize("how", ["cancelled", "half-closed"])
async def test_however_a_stream_ends_its_request_is_given_back(how: str) -> None:
    fixture = Fixture("a:1")
    async with service(fixture) as envoy_side:
        stream = envoy_side.open()
        await stream.write(envoy.request_headers())
        await stream.read()
        await stream.write(envoy.request_body(PROMPT, end=True))
        await stream.read()
        assert fixture.load.requests == {"a:1": 1}
        if how == "cancelled":
            stream.cancel()
        else:
            await stream.done_writing()
        await until(lambda: fixture.load.requests == {})
        assert fixture.known.told == ["decided a:1", "ended"]
        await until(lambda: envoy_side.processor.stats.open == 0)


async def test_streams_of_requests_on_their_way_end_well_when_the_router_finishes() -> None:
    fixture = Fixture("a:1")
    async with service(fixture) as envoy_side:
        picked, undecided = envoy_side.open(), envoy_side.open()
        for stream in (picked, undecided):
            await stream.write(envoy.request_headers())
            await stream.read()
        await picked.write(envoy.request_body(PROMPT, end=True))
        await picked.read()
        envoy_side.processor.finish()
        assert await picked.read() == grpc.aio.EOF
        assert await picked.code() == grpc.StatusCode.OK
        assert fixture.load.requests == {}
        # This one is still to be picked for, and ends once it is.
        await undecided.write(envoy.request_body(PROMPT, end=True))
        answer = await undecided.read()
        assert isinstance(answer, pb.ProcessingResponse)
        assert destination(answer) == "a:1"
        assert await undecided.code() == grpc.StatusCode.OK
        assert envoy_side.processor.stats.failed == 0


async def test_a_stream_that_carries_the_answer_itself_is_not_ended() -> None:
    async with service() as envoy_side:
        stream = envoy_side.open()
        await stream.write(
            envoy.request_headers(
                mode=pb.FULL_DUPLEX_STREAMED, response_mode=pb.FULL_DUPLEX_STREAMED
            )
        )
        await stream.write(envoy.request_body(PROMPT, end=True))
        await stream.read()
        await stream.read()
        envoy_side.processor.finish()
        await stream.write(envoy.response_headers(200, content_type="text/event-stream"))
        await stream.read()
        await stream.write(envoy.response_body(b"data: 1\n\n", end=True))
        answer = await stream.read()
        assert isinstance(answer, pb.ProcessingResponse)
        assert answer.response_body.response.body_mutation.streamed_response.body == b"data: 1\n\n"
        stream.cancel()


async def test_many_open_streams_do_not_hold_up_a_new_one() -> None:
    async with service() as envoy_side:
        held = []
        for _ in range(300):
            stream = envoy_side.open()
            await stream.write(envoy.request_headers())
            held.append(stream)
        await asyncio.gather(*(stream.read() for stream in held))
        async with asyncio.timeout(5):
            *_, answer = await envoy_side.play(
                envoy.request_headers(), envoy.request_body(PROMPT, end=True)
            )
        assert destination(answer) == "a:1"
        for stream in held:
            stream.cancel()


async def test_streams_are_counted_by_how_they_end() -> None:
    async with service(tells_ends=True) as envoy_side:
        counts = envoy_side.processor.stats
        await envoy_side.play(envoy.request_headers(), envoy.request_body(PROMPT, end=True))
        # A refusal is an answer like any other.
        await envoy_side.play(envoy.request_headers(), envoy.request_body(b"{", end=True))
        await until(lambda: counts.codes == {"OK": 2})
        assert sum(counts.duration.counts) == 2
        assert counts.duration.total > 0
        call = envoy_side.open()
        await call.write(envoy.request_headers())
        await call.read()
        call.cancel()
        await until(lambda: counts.codes == {"OK": 2, "Canceled": 1})


async def test_an_answer_that_cannot_be_written_is_no_good_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def broken(_: RouterError) -> pb.ProcessingResponse:
        raise ValueError("no such answer")

    monkeypatch.setattr("router.extproc.reply.refused", broken)
    async with service(tells_ends=True) as envoy_side:
        with pytest.raises(grpc.aio.AioRpcError) as error:
            await envoy_side.play(envoy.request_headers(), envoy.request_body(b"{", end=True))
        assert error.value.code() is grpc.StatusCode.UNKNOWN
        await until(lambda: envoy_side.processor.stats.codes == {"Unknown": 1})
