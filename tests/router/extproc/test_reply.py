from __future__ import annotations

import json
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import BadRequest, BodyTooLarge, NoEndpoints, RouterError, Saturated
from router.extproc import headers, reply
from router.extproc.exchange import Phase, RequestReady
from router.extproc.pb import ext_proc_pb2 as pb

AT_BODY = RequestReady({}, b"{}", Phase.REQUEST_BODY)
AT_HEADERS = RequestReady({}, b"", Phase.REQUEST_HEADERS)


def set_headers(mutation: pb.HeaderMutation) -> Mapping[str, bytes]:
    for option in mutation.set_headers:
        assert option.append_action == pb.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD
    return {option.header.key: option.header.raw_value for option in mutation.set_headers}


def test_the_destination_stands_in_header_and_metadata() -> None:
    (answer,) = reply.routed(AT_BODY, reply.Routing("10.0.0.7:8000", {"x-request-id": "r1"}))
    mutation = answer.request_body.response.header_mutation
    assert set_headers(mutation) == {
        "x-gateway-destination-endpoint": b"10.0.0.7:8000",
        "x-request-id": b"r1",
    }
    metadata = answer.dynamic_metadata.fields["envoy.lb"].struct_value
    assert metadata.fields["x-gateway-destination-endpoint"].string_value == "10.0.0.7:8000"


@pytest.mark.parametrize("ready", [AT_BODY, AT_HEADERS], ids=["body", "headers"])
def test_whatever_a_client_sent_to_steer_the_router_is_removed(ready: RequestReady) -> None:
    (answer,) = reply.routed(ready, reply.Routing("10.0.0.7:8000"))
    part = answer.request_body if ready is AT_BODY else answer.request_headers
    removed = list(part.response.header_mutation.remove_headers)
    assert removed == list(headers.REMOVED)
    assert {"x-prefiller-host-port", "x-slo-ttft-ms", "epp-profile"} <= set(removed)
    assert not {"x-request-id", "traceparent", "prefer", "x-session-token"} & set(removed)


def test_what_is_removed_from_headers_is_removed_from_trailers_too() -> None:
    answer = reply.proceed(Phase.REQUEST_TRAILERS).request_trailers
    assert list(answer.header_mutation.remove_headers) == list(headers.REMOVED)
    assert not answer.header_mutation.set_headers


@given(st.binary(max_size=300_000), st.booleans())
def test_full_duplex_sends_the_whole_body_back_in_small_pieces(body: bytes, trailers: bool) -> None:
    ready = RequestReady({}, body, Phase.REQUEST_BODY, True, trailers)
    first, *rest = reply.routed(ready, reply.Routing("10.0.0.7:8000"))
    assert first.HasField("request_headers")
    if trailers:
        assert rest.pop().HasField("request_trailers")
    pieces = [m.request_body.response.body_mutation.streamed_response for m in rest]
    assert b"".join(piece.body for piece in pieces) == body
    assert all(len(piece.body) <= 64 * 1024 for piece in pieces)
    assert [piece.end_of_stream for piece in pieces] == [False] * (len(pieces) - 1) + [not trailers]


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (BadRequest("no"), 400, None),
        (BodyTooLarge("big"), 413, None),
        (NoEndpoints("none"), 503, b"rejected-no-endpoints"),
        (Saturated("full"), 429, b"rejected-saturated"),
        (RouterError("oops"), 500, None),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Exception) else None,
)
def test_a_refusal_has_the_shape_of_an_openai_error(
    error: RouterError, status: int, reason: bytes | None
) -> None:
    answer = reply.refused(error).immediate_response
    assert answer.status.code == status
    body = json.loads(answer.body)
    assert body["error"]["message"] == str(error)
    assert body["error"]["code"] == status
    assert body["error"]["type"]
    sent = set_headers(answer.headers)
    assert sent["content-type"] == b"application/json"
    assert sent.get("x-llm-d-request-dropped-reason") == reason


def test_a_full_duplex_response_chunk_comes_back_unchanged() -> None:
    answers = list(reply.echoed(b"y" * 100_000, end=True))
    pieces = [a.response_body.response.body_mutation.streamed_response for a in answers]
    assert b"".join(piece.body for piece in pieces) == b"y" * 100_000
    assert [piece.end_of_stream for piece in pieces] == [False, True]


def test_only_the_response_body_mode_is_overridden() -> None:
    for added in ({}, {"x-session-token": "t"}):
        override = reply.started(added, body=True).mode_override
        assert override == pb.ProcessingMode(response_body_mode=pb.STREAMED)
        assert not reply.started(added, body=False).HasField("mode_override")


def test_the_length_of_an_answer_that_changes_is_not_told() -> None:
    answer = reply.started({}, body=True, resized=True).response_headers.response
    assert list(answer.header_mutation.remove_headers) == ["content-length"]


@pytest.mark.parametrize("data", [b"x", b""])
def test_another_chunk_or_none_takes_the_place_of_one(data: bytes) -> None:
    mutation = reply.changed(data).response_body.response.body_mutation
    assert (mutation.body, mutation.clear_body) == (data, not data)


def test_a_body_that_is_sent_instead_has_its_own_length_and_is_not_packed() -> None:
    (answer,) = reply.routed(AT_BODY, reply.Routing("10.0.0.7:8000", body=b"12345"))
    common = answer.request_body.response
    assert common.body_mutation.body == b"12345"
    assert set_headers(common.header_mutation)["content-length"] == b"5"
    assert "content-encoding" in common.header_mutation.remove_headers


def test_full_duplex_sends_another_body_in_the_place_of_the_clients() -> None:
    ready = RequestReady({}, b"the client's", Phase.REQUEST_BODY, True)
    first, body = reply.routed(ready, reply.Routing("10.0.0.7:8000", body=b"12345"))
    mutation = first.request_headers.response.header_mutation
    assert set_headers(mutation)["content-length"] == b"5"
    streamed = body.request_body.response.body_mutation.streamed_response
    assert (streamed.body, streamed.end_of_stream) == (b"12345", True)


def test_a_body_that_goes_on_as_it_is_keeps_its_headers() -> None:
    (answer,) = reply.routed(AT_BODY, reply.Routing("10.0.0.7:8000"))
    mutation = answer.request_body.response.header_mutation
    assert "content-length" not in set_headers(mutation)
    assert "content-encoding" not in mutation.remove_headers


def test_a_response_passes_unchanged_where_the_client_is_told_nothing() -> None:
    plain = reply.started({}, body=False)
    assert plain == pb.ProcessingResponse(response_headers=pb.HeadersResponse())


@pytest.mark.parametrize("read_body", [False, True])
def test_the_client_is_told_what_the_router_adds_and_the_next_one_is_not(read_body: bool) -> None:
    told = reply.started({"x-session-token": "t"}, body=read_body)
    mutation = told.response_headers.response.header_mutation
    assert {h.header.key: h.header.raw_value for h in mutation.set_headers} == {
        "x-session-token": b"t"
    }
    after = reply.started({}, body=read_body).response_headers
    assert not after.response.header_mutation.set_headers


def test_headers_are_set_on_an_answer() -> None:
    answer = reply.started({"x-served": "a:1"}).response_headers.response
    assert set_headers(answer.header_mutation) == {"x-served": b"a:1"}


def test_a_sidecars_word_for_the_router_does_not_reach_the_client() -> None:
    answer = reply.started({}, reported=True).response_headers.response
    assert list(answer.header_mutation.remove_headers) == ["x-warmroute-prefill"]


def test_scores_stand_in_the_metadata_where_they_are_asked_for() -> None:
    routing = reply.Routing("a:1", scores={"a:1": 4.5, "b:1": 0.0})
    (answer,) = reply.routed(AT_BODY, routing)
    metadata = answer.dynamic_metadata.fields["envoy.lb"].struct_value
    scores = metadata.fields["x-gateway-destination-endpoint-scores"].struct_value
    told = {address: value.number_value for address, value in scores.fields.items()}
    assert told == {"a:1": 4.5, "b:1": 0.0}
    (plain,) = reply.routed(AT_BODY, reply.Routing("a:1"))
    assert set(plain.dynamic_metadata.fields["envoy.lb"].struct_value.fields) == {
        "x-gateway-destination-endpoint"
    }
