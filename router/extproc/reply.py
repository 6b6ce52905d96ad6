"""The ProcessingResponses we send. One function per thing we say to Envoy."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping

import msgspec
from google.protobuf import struct_pb2

from router.errors import RouterError
from router.extproc import headers as names
from router.extproc.exchange import Phase, RequestReady
from router.extproc.pb import ext_proc_pb2 as pb

MAX_CHUNK_BYTES = 62_000
"""Largest piece of a body sent back in full duplex; Envoy's own limit is 64 KiB a message."""

_OVERWRITE = pb.HeaderValueOption.OVERWRITE_IF_EXISTS_OR_ADD

_PROCEED: Mapping[Phase, pb.ProcessingResponse] = {
    Phase.REQUEST_HEADERS: pb.ProcessingResponse(request_headers=pb.HeadersResponse()),
    Phase.REQUEST_BODY: pb.ProcessingResponse(request_body=pb.BodyResponse()),
    Phase.REQUEST_TRAILERS: pb.ProcessingResponse(request_trailers=pb.TrailersResponse()),
    Phase.RESPONSE_HEADERS: pb.ProcessingResponse(response_headers=pb.HeadersResponse()),
    Phase.RESPONSE_BODY: pb.ProcessingResponse(response_body=pb.BodyResponse()),
    Phase.RESPONSE_TRAILERS: pb.ProcessingResponse(response_trailers=pb.TrailersResponse()),
}

_PROCEED_WITH_BODY = pb.ProcessingResponse(
    response_headers=pb.HeadersResponse(),
    mode_override=pb.ProcessingMode(response_body_mode=pb.STREAMED),
)


def proceed(phase: Phase) -> pb.ProcessingResponse:
    """Change nothing."""
    return _PROCEED[phase]


def response_started(headers: Mapping[str, str], *, read_body: bool) -> pb.ProcessingResponse:
    """Answer the response headers, with `headers` set for the client besides.

    `read_body` asks for a copy of the body, chunk by chunk: only here, with only this field of the
    mode set, does Envoy take a mode override without side effects.
    """
    plain = _PROCEED_WITH_BODY if read_body else _PROCEED[Phase.RESPONSE_HEADERS]
    if not headers:
        return plain
    answer = pb.ProcessingResponse()
    answer.CopyFrom(plain)
    mutation = pb.HeaderMutation(set_headers=_set(headers))
    answer.response_headers.response.CopyFrom(pb.CommonResponse(header_mutation=mutation))
    return answer


def routed(
    request: RequestReady, destination: str, headers: Mapping[str, str]
) -> Iterator[pb.ProcessingResponse]:
    """Send the request to `destination` (``ip:port``), with `headers` set besides.

    Yields one message, or in full duplex the headers' answer, the body and perhaps the trailers.
    """
    at_body = request.at is Phase.REQUEST_BODY and not request.echo
    if headers:
        yield _decision(destination, at_body, headers)
    else:
        yield _plain_decision(destination, at_body)
    if request.echo:
        yield from _echo(request.body or b"", end=not request.trailers)
    if request.trailers:
        yield proceed(Phase.REQUEST_TRAILERS)


def echoed(chunk: bytes, *, end: bool) -> Iterator[pb.ProcessingResponse]:
    """Send a full duplex response chunk back unchanged."""
    for piece, last in _pieces(chunk, end=end):
        yield pb.ProcessingResponse(response_body=_streamed(piece, last))


def refused(error: RouterError) -> pb.ProcessingResponse:
    """Answer in the model server's place, in the OpenAI error shape."""
    headers = {"content-type": "application/json"}
    if error.dropped_reason is not None:
        headers[names.DROPPED_REASON] = error.dropped_reason
    body = {"message": str(error), "type": error.kind, "param": None, "code": error.status}
    return pb.ProcessingResponse(
        immediate_response=pb.ImmediateResponse(
            status=pb.HttpStatus(code=error.status),
            headers=pb.HeaderMutation(set_headers=_set(headers)),
            body=msgspec.json.encode({"error": body}),
            details=f"warmroute_{type(error).__name__}",
        )
    )


@functools.lru_cache(maxsize=1024)
def _plain_decision(destination: str, at_body: bool) -> pb.ProcessingResponse:
    """The usual answer, made once for each endpoint; nobody changes a message that was made."""
    return _decision(destination, at_body, {})


def _decision(destination: str, at_body: bool, headers: Mapping[str, str]) -> pb.ProcessingResponse:
    common = pb.CommonResponse(
        header_mutation=pb.HeaderMutation(
            set_headers=_set({names.DESTINATION: destination, **headers}),
            remove_headers=names.REMOVED,
        )
    )
    metadata = _metadata(destination)
    if at_body:
        body = pb.BodyResponse(response=common)
        return pb.ProcessingResponse(request_body=body, dynamic_metadata=metadata)
    answer = pb.HeadersResponse(response=common)
    return pb.ProcessingResponse(request_headers=answer, dynamic_metadata=metadata)


def _set(headers: Mapping[str, str]) -> list[pb.HeaderValueOption]:
    return [
        pb.HeaderValueOption(
            header=pb.HeaderValue(key=key, raw_value=value.encode("latin-1")),
            append_action=_OVERWRITE,
        )
        for key, value in headers.items()
    ]


def _metadata(destination: str) -> struct_pb2.Struct:
    string = struct_pb2.Value(string_value=destination)
    inner = struct_pb2.Struct(fields={names.DESTINATION: string})
    return struct_pb2.Struct(
        fields={names.METADATA_NAMESPACE: struct_pb2.Value(struct_value=inner)}
    )


def _echo(body: bytes, *, end: bool) -> Iterator[pb.ProcessingResponse]:
    for piece, last in _pieces(body, end=end):
        yield pb.ProcessingResponse(request_body=_streamed(piece, last))


def _streamed(piece: bytes, end: bool) -> pb.BodyResponse:
    streamed = pb.StreamedBodyResponse(body=piece, end_of_stream=end)
    mutation = pb.BodyMutation(streamed_response=streamed)
    return pb.BodyResponse(response=pb.CommonResponse(body_mutation=mutation))


def _pieces(body: bytes, *, end: bool) -> Iterator[tuple[bytes, bool]]:
    """Cut into pieces of at most `MAX_CHUNK_BYTES`; the last one carries `end`."""
    for start in range(0, max(len(body), 1), MAX_CHUNK_BYTES):
        stop = start + MAX_CHUNK_BYTES
        yield body[start:stop], end and stop >= len(body)
