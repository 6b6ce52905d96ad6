from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import BodyTooLarge
from router.extproc.exchange import (
    Event,
    Exchange,
    Phase,
    Proceed,
    RequestReady,
    ResponseChunk,
    ResponseStarted,
    ResponseTrailers,
)
from router.extproc.pb import ext_proc_pb2 as pb
from tests.support import envoy_messages as envoy

CAP = 1000


def play(*messages: pb.ProcessingRequest, cap: int = CAP) -> list[Event]:
    exchange = Exchange(cap)
    return [exchange.receive(message) for message in messages]


def test_a_buffered_request_is_decided_at_its_body() -> None:
    proceed, ready = play(envoy.request_headers(), envoy.request_body(b"{}", end=True))
    assert proceed == Proceed(Phase.REQUEST_HEADERS)
    assert isinstance(ready, RequestReady)
    assert (ready.body, ready.at, ready.echo) == (b"{}", Phase.REQUEST_BODY, False)
    assert ready.headers[":path"] == "/v1/completions"


def test_a_buffered_request_with_trailers_is_decided_at_its_body_too() -> None:
    # Envoy then sends the whole body without the end of the stream, and the trailers after it.
    _, ready, trailers = play(
        envoy.request_headers(), envoy.request_body(b"{}", end=False), envoy.request_trailers()
    )
    assert isinstance(ready, RequestReady)
    assert trailers == Proceed(Phase.REQUEST_TRAILERS)


@pytest.mark.parametrize(
    "mode", [pb.BUFFERED, pb.FULL_DUPLEX_STREAMED, pb.STREAMED, pb.NONE], ids=pb.BodySendMode.Name
)
def test_a_request_without_a_body_is_decided_at_its_headers(
    mode: pb.BodySendMode.ValueType,
) -> None:
    (ready,) = play(envoy.request_headers(end=True, mode=mode))
    assert isinstance(ready, RequestReady)
    assert (ready.body, ready.at, ready.echo) == (b"", Phase.REQUEST_HEADERS, False)


@pytest.mark.parametrize("mode", [pb.STREAMED, pb.NONE], ids=pb.BodySendMode.Name)
def test_a_hidden_body_is_decided_at_the_headers(mode: pb.BodySendMode.ValueType) -> None:
    ready, *rest = play(
        envoy.request_headers(mode=mode),
        envoy.request_body(b"a", end=False),
        envoy.request_body(b"b", end=True),
    )
    assert isinstance(ready, RequestReady)
    assert (ready.body, ready.at) == (None, Phase.REQUEST_HEADERS)
    assert rest == [Proceed(Phase.REQUEST_BODY)] * 2


@pytest.mark.parametrize(
    ("sent", "end", "seen"),
    [
        (b'{"a": "}"', True, True),
        (b'{"a": "}"', False, False),
        (b"", False, False),
        (b'{"a": "}"} ', False, True),
    ],
    ids=["told-whole", "cut", "nothing", "whole-before-trailers"],
)
def test_a_partial_body_counts_only_when_it_is_whole(sent: bytes, end: bool, seen: bool) -> None:
    _, ready = play(
        envoy.request_headers(mode=pb.BUFFERED_PARTIAL), envoy.request_body(sent, end=end)
    )
    assert isinstance(ready, RequestReady)
    assert (ready.body, ready.at) == (sent if seen else None, Phase.REQUEST_BODY)


@given(st.lists(st.binary(max_size=40), min_size=1, max_size=12))
def test_full_duplex_decides_once_with_all_of_the_body(chunks: list[bytes]) -> None:
    messages = [envoy.request_headers(mode=pb.FULL_DUPLEX_STREAMED)]
    messages += [envoy.request_body(chunk, end=False) for chunk in chunks[:-1]]
    messages.append(envoy.request_body(chunks[-1], end=True))
    *silence, ready = play(*messages)
    assert silence == [None] * len(chunks)
    assert isinstance(ready, RequestReady)
    assert (ready.body, ready.echo, ready.trailers) == (b"".join(chunks), True, False)


def test_full_duplex_ignores_a_last_chunk_that_comes_twice() -> None:
    last = envoy.request_body(b"b", end=True)
    messages = [envoy.request_headers(mode=pb.FULL_DUPLEX_STREAMED)]
    *_, ready, again = play(*messages, envoy.request_body(b"a", end=False), last, last)
    assert isinstance(ready, RequestReady)
    assert ready.body == b"ab"
    assert again is None


def test_full_duplex_can_end_with_an_empty_chunk_or_with_trailers() -> None:
    headers = envoy.request_headers(mode=pb.FULL_DUPLEX_STREAMED)
    whole = envoy.request_body(b"{}", end=False)
    *_, by_chunk = play(headers, whole, envoy.request_body(b"", end=True))
    *_, by_trailers = play(headers, whole, envoy.request_trailers())
    assert isinstance(by_chunk, RequestReady)
    assert isinstance(by_trailers, RequestReady)
    assert (by_chunk.body, by_chunk.trailers) == (b"{}", False)
    assert (by_trailers.body, by_trailers.trailers) == (b"{}", True)


def test_the_cap_holds_to_the_byte_over_all_chunks() -> None:
    headers = envoy.request_headers(mode=pb.FULL_DUPLEX_STREAMED)
    half = envoy.request_body(b"x" * (CAP // 2), end=False)
    *_, ready = play(headers, half, envoy.request_body(b"x" * (CAP // 2), end=True))
    assert isinstance(ready, RequestReady)
    with pytest.raises(BodyTooLarge, match="1000 bytes"):
        play(headers, half, half, envoy.request_body(b"x", end=True))


def test_header_names_are_lower_case_and_the_last_value_counts() -> None:
    headers = pb.HttpHeaders(
        headers=pb.HeaderMap(
            headers=[
                pb.HeaderValue(key="X-Request-ID", raw_value=b"first"),
                pb.HeaderValue(key="x-request-id", raw_value=b"second"),
                pb.HeaderValue(key="X-Text", value="from the text field"),
            ]
        ),
        end_of_stream=True,
    )
    (ready,) = play(pb.ProcessingRequest(request_headers=headers))
    assert isinstance(ready, RequestReady)
    assert ready.headers == {"x-request-id": "second", "x-text": "from the text field"}


def test_the_response_is_told_in_order() -> None:
    events = play(
        envoy.request_headers(end=True),
        envoy.response_headers(503, content_type="text/plain"),
        envoy.response_body(b"x", end=True),
        pb.ProcessingRequest(response_trailers=pb.HttpTrailers()),
    )
    started, chunk, trailers = events[1:]
    assert isinstance(started, ResponseStarted)
    assert (started.status, started.streamable, started.end) == (503, True, False)
    assert chunk == ResponseChunk(b"x", True, False)
    assert trailers == ResponseTrailers(echo=False)


def test_a_full_duplex_response_must_be_sent_back() -> None:
    *_, started, chunk = play(
        envoy.request_headers(end=True, response_mode=pb.FULL_DUPLEX_STREAMED),
        envoy.response_headers(),
        envoy.response_body(b"x", end=False),
    )
    assert isinstance(started, ResponseStarted)
    assert not started.streamable
    assert chunk == ResponseChunk(b"x", False, True)


def test_an_empty_message_means_nothing() -> None:
    assert play(pb.ProcessingRequest()) == [None]


def test_a_data_plane_that_only_observes_gets_no_answers() -> None:
    first = envoy.request_headers()
    first.observability_mode = True
    exchange = Exchange(CAP)
    for message in (first, envoy.request_body(b"{}", end=True), envoy.response_headers()):
        assert exchange.receive(message) is None
    assert exchange.observed


@pytest.mark.parametrize(
    "last",
    [envoy.response_body(b"", end=True), pb.ProcessingRequest(response_trailers=pb.HttpTrailers())],
    ids=["last-chunk", "trailers"],
)
def test_an_answer_streams_until_its_end_is_seen(last: pb.ProcessingRequest) -> None:
    exchange = Exchange(CAP)
    exchange.receive(envoy.request_headers(end=True))
    assert not exchange.streaming
    exchange.receive(envoy.response_headers())
    assert exchange.streaming
    exchange.receive(last)
    assert not exchange.streaming


@pytest.mark.parametrize("at", ["headers", "body", "both"])
def test_the_endpoints_that_are_allowed_are_told_with_the_headers_or_the_body(at: str) -> None:
    first = envoy.request_headers(mode=pb.FULL_DUPLEX_STREAMED)
    last = envoy.request_body(b"{}", end=True)
    if at != "body":
        envoy.allow(first, "a:1" if at == "headers" else "other:1")
    if at != "headers":
        envoy.allow(last, "a:1")
    *_, ready = play(first, last)
    assert isinstance(ready, RequestReady)
    assert ready.subset == ("a:1",)


def test_a_full_duplex_request_takes_no_override() -> None:
    *_, started = play(
        envoy.request_headers(end=True, mode=pb.FULL_DUPLEX_STREAMED), envoy.response_headers()
    )
    assert isinstance(started, ResponseStarted)
    assert (started.streamable, started.seen) == (False, False)


def test_a_request_is_decided_once_whatever_is_said_again() -> None:
    first, again, body = play(
        envoy.request_headers(end=True),
        envoy.request_headers(end=True),
        envoy.request_body(b"{}", end=True),
    )
    assert isinstance(first, RequestReady)
    assert again == Proceed(Phase.REQUEST_HEADERS)
    assert body == Proceed(Phase.REQUEST_BODY)
