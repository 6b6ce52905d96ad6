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

_CLEANED = pb.HeaderMutation(remove_headers=names.REMOVED)
"""For trailers, which an engine could take for headers."""

_PROCEED: Mapping[Phase, pb.ProcessingResponse] = {
    Phase.REQUEST_HEADERS: pb.ProcessingResponse(request_headers=pb.HeadersResponse()),
    Phase.REQUEST_BODY: pb.ProcessingResponse(request_body=pb.BodyResponse()),
    Phase.REQUEST_TRAILERS: pb.ProcessingResponse(
        request_trailers=pb.TrailersResponse(header_mutation=_CLEANED)
    ),
    Phase.RESPONSE_HEADERS: pb.ProcessingResponse(response_headers=pb.HeadersResponse()),
    Phase.RESPONSE_BODY: pb.ProcessingResponse(response_body=pb.BodyResponse()),
    Phase.RESPONSE_TRAILERS: pb.ProcessingResponse(response_trailers=pb.TrailersResponse()),
}

_STREAM_BODY = pb.ProcessingMode(response_body_mode=pb.STREAMED)


def proceed(phase: Phase) -> pb.ProcessingResponse:
    """Change nothing but what of a request's trailers may not pass."""
    return _PROCEED[phase]


def started(
    headers: Mapping[str, str],
    *,
    body: bool = False,
    resized: bool = False,
    reported: bool = False,
) -> pb.ProcessingResponse:
    """Answer the response headers, with `headers` set for the client besides.

    `body` asks for the body, chunk by chunk: only here, with only this field of the mode set, does
    Envoy take a mode override without side effects. `resized`: its length will be another one.
    `reported`: it holds a sidecar's word for the router, which goes no further.
    """
    if not (headers or body or resized or reported):
        return proceed(Phase.RESPONSE_HEADERS)
    answer = pb.HeadersResponse()
    if headers:
        answer.response.header_mutation.set_headers.extend(_set(headers))
    if resized:
        answer.response.header_mutation.remove_headers.append(names.CONTENT_LENGTH)
    if reported:
        answer.response.header_mutation.remove_headers.append(names.PREFILL_RESULT)
    override = _STREAM_BODY if body else None
    return pb.ProcessingResponse(response_headers=answer, mode_override=override)


class Routing(msgspec.Struct, frozen=True):
    """What becomes of a request.

    Attributes:
        destination: ``ip:port``; several are joined by commas, best first.
        headers: Set besides.
        body: Sent instead of the client's, and not packed; None: the client's goes on.
        scores: Endpoint address -> its total, where the data plane is told those too.
    """

    destination: str
    headers: Mapping[str, str] = {}
    body: bytes | None = None
    scores: Mapping[str, float] = {}


def routed(request: RequestReady, routing: Routing) -> Iterator[pb.ProcessingResponse]:
    """Send the request on.

    Yields one message, or in full duplex the headers' answer, the body and perhaps the trailers.
    """
    at_body = request.at is Phase.REQUEST_BODY and not request.echo
    if routing.headers or routing.scores or routing.body is not None:
        yield _decision(routing, at_body)
    else:
        yield _plain_decision(routing.destination, at_body)
    if request.echo:
        body = request.body if routing.body is None else routing.body
        yield from _echo(body or b"", end=not request.trailers)
    if request.trailers:
        yield proceed(Phase.REQUEST_TRAILERS)


def changed(chunk: bytes) -> pb.ProcessingResponse:
    """Put other bytes, or none, in the place of a response chunk."""
    mutation = pb.BodyMutation(body=chunk) if chunk else pb.BodyMutation(clear_body=True)
    common = pb.CommonResponse(body_mutation=mutation)
    return pb.ProcessingResponse(response_body=pb.BodyResponse(response=common))


def echoed(chunk: bytes, *, end: bool) -> Iterator[pb.ProcessingResponse]:
    """Send a full duplex response chunk back."""
    for piece, last in _pieces(chunk, end=end):
        yield pb.ProcessingResponse(response_body=_streamed(piece, last))


def refused(error: RouterError) -> pb.ProcessingResponse:
    """Answer in the model server's place, in the OpenAI error shape."""
    headers = {"content-type": "application/json", **error.answer_headers}
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
    return _decision(Routing(destination), at_body)


def _decision(routing: Routing, at_body: bool) -> pb.ProcessingResponse:
    headers = {names.DESTINATION: routing.destination, **routing.headers}
    removed: tuple[str, ...] = names.REMOVED
    if routing.body is not None:
        headers[names.CONTENT_LENGTH] = str(len(routing.body))
        removed = (*removed, names.CONTENT_ENCODING)
    mutation = pb.HeaderMutation(set_headers=_set(headers), remove_headers=removed)
    common = pb.CommonResponse(header_mutation=mutation)
    metadata = _metadata(routing)
    if at_body:
        if routing.body is not None:
            common.body_mutation.body = routing.body
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


def _metadata(routing: Routing) -> struct_pb2.Struct:
    told = {names.DESTINATION: struct_pb2.Value(string_value=routing.destination)}
    if routing.scores:
        scores = {a: struct_pb2.Value(number_value=total) for a, total in routing.scores.items()}
        totals = struct_pb2.Struct(fields=scores)
        told[names.SCORES] = struct_pb2.Value(struct_value=totals)
    inner = struct_pb2.Struct(fields=told)
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
