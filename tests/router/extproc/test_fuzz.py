"""Whatever a client sends and a data plane says, in whatever order: no stream ends by a fault."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.extproc.pb import ext_proc_pb2 as pb
from router.extproc.server import ExternalProcessor
from tests.router.directing import Fixture
from tests.router.extproc.serving import service
from tests.support import envoy_messages as envoy
from tests.support.corpus import Sent, corpus

MODES = (pb.BUFFERED, pb.FULL_DUPLEX_STREAMED, pb.STREAMED, pb.BUFFERED_PARTIAL, pb.NONE)


def headers(sent: Sent) -> Mapping[str, str]:
    return {":method": sent.method, ":path": sent.path, **sent.headers}


@pytest.mark.parametrize("mode", MODES, ids=pb.BodySendMode.Name)
async def test_no_request_of_hundreds_makes_the_router_fail(
    mode: pb.BodySendMode.ValueType,
) -> None:
    async with service(Fixture("10.0.0.1:1", rename_answers=True)) as envoy_side:
        for sent in corpus(3, 300):
            end = not sent.body
            messages = [envoy.request_headers(headers(sent), end=end, mode=mode)]
            if not end and mode != pb.NONE:
                messages.append(envoy.request_body(sent.body, end=True))
            answers = await envoy_side.play(*messages)
            statuses = [a.immediate_response.status.code for a in answers]
            assert max(statuses) < 500, sent
        assert envoy_side.processor.stats.failed == 0


MESSAGES = st.one_of(
    st.builds(
        envoy.request_headers,
        st.just(envoy.POST),
        end=st.booleans(),
        mode=st.sampled_from(MODES),
        response_mode=st.sampled_from(MODES),
    ),
    st.builds(envoy.request_body, st.binary(max_size=20), end=st.booleans()),
    st.builds(envoy.request_body, st.just(b'{"prompt": "x"}'), end=st.booleans()),
    st.builds(envoy.request_trailers),
    st.builds(
        envoy.response_headers,
        st.sampled_from((0, 200, 404, 503)),
        end=st.booleans(),
        content_type=st.sampled_from(("", "application/json", "text/event-stream")),
    ),
    st.builds(envoy.response_body, st.binary(max_size=20), end=st.booleans()),
    st.builds(lambda: pb.ProcessingRequest(response_trailers=pb.HttpTrailers())),
    st.builds(pb.ProcessingRequest, observability_mode=st.booleans()),
)


class Written:
    """A context that keeps what is written."""

    def __init__(self) -> None:
        self.answers: list[pb.ProcessingResponse] = []

    async def write(self, answer: pb.ProcessingResponse) -> None:
        self.answers.append(answer)


async def each(messages: list[Any]) -> AsyncIterator[Any]:
    for message in messages:
        yield message


@given(st.lists(MESSAGES, max_size=8))
def test_no_order_of_messages_makes_the_router_fail(messages: list[Any]) -> None:
    fixture = Fixture("a:1")
    processor = ExternalProcessor(fixture.director, 1000)
    asyncio.run(processor.Process(each(messages), Written()))  # type: ignore[arg-type]
    assert processor.stats.failed == 0
    assert fixture.load.requests == {}
