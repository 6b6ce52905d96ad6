"""ProcessingRequests as Envoy sends them."""

from __future__ import annotations

from collections.abc import Mapping

from router.extproc.pb import ext_proc_pb2 as pb

POST: Mapping[str, str] = {
    ":method": "POST",
    ":path": "/v1/completions",
    "content-type": "application/json",
}


def request_headers(
    headers: Mapping[str, str] = POST,
    *,
    end: bool = False,
    mode: pb.BodySendMode.ValueType = pb.BUFFERED,
    response_mode: pb.BodySendMode.ValueType = pb.NONE,
) -> pb.ProcessingRequest:
    """The first message of an exchange."""
    return pb.ProcessingRequest(
        request_headers=pb.HttpHeaders(headers=header_map(headers), end_of_stream=end),
        protocol_config=pb.ProtocolConfiguration(
            request_body_mode=mode, response_body_mode=response_mode
        ),
    )


def request_body(data: bytes, *, end: bool) -> pb.ProcessingRequest:
    """A piece of the request body."""
    return pb.ProcessingRequest(request_body=pb.HttpBody(body=data, end_of_stream=end))


def request_trailers() -> pb.ProcessingRequest:
    """The request ends with trailers."""
    return pb.ProcessingRequest(request_trailers=pb.HttpTrailers())


def response_headers(
    status: int = 200, *, end: bool = False, **headers: str
) -> pb.ProcessingRequest:
    """The engine answers."""
    named = {":status": str(status), **{k.replace("_", "-"): v for k, v in headers.items()}}
    return pb.ProcessingRequest(
        response_headers=pb.HttpHeaders(headers=header_map(named), end_of_stream=end)
    )


def response_body(data: bytes, *, end: bool) -> pb.ProcessingRequest:
    """A piece of the answer."""
    return pb.ProcessingRequest(response_body=pb.HttpBody(body=data, end_of_stream=end))


def allow(message: pb.ProcessingRequest, *endpoints: str) -> None:
    """Say beside a message that only these may be picked."""
    hint = message.metadata_context.filter_metadata["envoy.lb.subset_hint"]
    hint.update({"x-gateway-destination-endpoint-subset": list(endpoints)})


def header_map(headers: Mapping[str, str]) -> pb.HeaderMap:
    """Values as Envoy sends them: raw."""
    return pb.HeaderMap(
        headers=[pb.HeaderValue(key=k, raw_value=v.encode("latin-1")) for k, v in headers.items()]
    )
