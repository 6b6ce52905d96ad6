"""One HTTP exchange as Envoy tells it, without IO.

When the request can be answered depends on the request body mode, which Envoy names in its first
message (`protocol_config`):

    BUFFERED, BUFFERED_PARTIAL   headers: proceed at once; the body comes whole, decide there
                                 (a partial one that Envoy cut is as good as hidden)
    FULL_DUPLEX_STREAMED         headers: silence; decide at the last chunk or at the trailers,
                                 then headers and all of the body are sent back
    STREAMED, NONE               headers leave before the body ends: decide at the headers
    any mode, no body            decide at the headers

After the decision the response is told in the same way: headers, perhaps body, perhaps trailers.
A data plane that only observes takes no answers: such an exchange has no events.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping

import msgspec

from router.errors import BodyTooLarge
from router.extproc import headers as names
from router.extproc import metadata
from router.extproc.pb import ext_proc_pb2 as pb
from router.request.rewrite import is_complete


class Phase(enum.Enum):
    """Messages Envoy wants an answer to, whatever they say."""

    REQUEST_HEADERS = enum.auto()
    REQUEST_BODY = enum.auto()
    REQUEST_TRAILERS = enum.auto()
    RESPONSE_HEADERS = enum.auto()
    RESPONSE_BODY = enum.auto()
    RESPONSE_TRAILERS = enum.auto()


class RequestReady(msgspec.Struct, frozen=True):
    """All the router will see of the request is here: time to decide.

    Attributes:
        headers: Lower-case name -> value.
        body: None where the mode hides it.
        at: The message the decision answers.
        echo: Full duplex: the body must be sent back, after the headers.
        trailers: Full duplex: the request ends with trailers, not with its last chunk.
        subset: Endpoints that the data plane allows; None: all.
    """

    headers: Mapping[str, str]
    body: bytes | None
    at: Phase
    echo: bool = False
    trailers: bool = False
    subset: tuple[str, ...] | None = None


class Proceed(msgspec.Struct, frozen=True):
    """Nothing to change; Envoy waits for a word."""

    phase: Phase


class ResponseStarted(msgspec.Struct, frozen=True):
    """The response headers came.

    Attributes:
        status: HTTP status.
        headers: Lower-case name -> value.
        end: The response has no body.
        seen: Its body comes anyway.
        streamable: Envoy may be asked to send the body from here on.
        served: ``ip:port`` of who answers; empty where nobody says.
    """

    status: int
    headers: Mapping[str, str]
    end: bool
    streamable: bool
    seen: bool = False
    served: str = ""


class ResponseChunk(msgspec.Struct, frozen=True):
    """A piece of the response body.

    Attributes:
        echo: Full duplex: the chunk must be sent back.
    """

    data: bytes
    end: bool
    echo: bool


class ResponseTrailers(msgspec.Struct, frozen=True):
    """The response ends with trailers: no chunk was the last one.

    Attributes:
        echo: Full duplex: chunks may still be sent back.
    """

    echo: bool


Event = RequestReady | Proceed | ResponseStarted | ResponseChunk | ResponseTrailers | None

_DECIDE_AT_HEADERS = frozenset({pb.STREAMED, pb.NONE, pb.GRPC})


class Exchange:
    """Feed it Envoy's messages in order; it says what each one means.

    Attributes:
        headers: The request's, lower-case name -> value.
        observed: The data plane takes no answers.
        streaming: Headers of an answer came and its end has not been seen.
    """

    def __init__(self, max_body_bytes: int) -> None:
        self._max_body_bytes = max_body_bytes
        self.headers: Mapping[str, str] = {}
        self._chunks: list[bytes] = []
        self._length = 0
        self._request_mode: int = pb.BUFFERED
        self._response_mode: int = pb.NONE
        self._subset: tuple[str, ...] | None = None
        self._decided = False
        self.observed = False
        self.streaming = False

    def receive(self, message: pb.ProcessingRequest) -> Event:
        """Take the next message. Raises BodyTooLarge."""
        if message.HasField("protocol_config"):
            self._request_mode = message.protocol_config.request_body_mode
            self._response_mode = message.protocol_config.response_body_mode
        if message.observability_mode:
            self.observed = True
        return None if self.observed else self._event(message)

    def _event(self, message: pb.ProcessingRequest) -> Event:
        match message.WhichOneof("request"):
            case "request_headers":
                self._subset = metadata.subset(message)
                return self._request_headers(message.request_headers)
            case "request_body":
                # Full duplex: what is said beside the last chunk counts (llm-d).
                allowed = metadata.subset(message)
                self._subset = self._subset if allowed is None else allowed
                return self._request_body(message.request_body)
            case "request_trailers":
                return self._request_trailers()
            case "response_headers":
                return self._response_headers(message.response_headers, metadata.served(message))
            case "response_body":
                return self._response_body(message.response_body)
            case "response_trailers":
                self.streaming = False
                return ResponseTrailers(self.echoes_answers)
            case None:
                return None

    @property
    def echoes_answers(self) -> bool:
        """Response bodies reach the client only through here."""
        return self._response_mode == pb.FULL_DUPLEX_STREAMED

    @property
    def _full_duplex(self) -> bool:
        return self._request_mode == pb.FULL_DUPLEX_STREAMED

    def _request_headers(self, message: pb.HttpHeaders) -> Event:
        if self._decided:
            # Nobody says them twice; but a second decision would hold what is never given back.
            return Proceed(Phase.REQUEST_HEADERS)
        self.headers = names.flatten(message.headers)
        if message.end_of_stream:
            return self._ready(b"", Phase.REQUEST_HEADERS)
        if self._request_mode in _DECIDE_AT_HEADERS:
            return self._ready(None, Phase.REQUEST_HEADERS)
        return None if self._full_duplex else Proceed(Phase.REQUEST_HEADERS)

    def _request_body(self, message: pb.HttpBody) -> Event:
        if self._decided:
            # Full duplex: the body has been sent back whole, and Envoy can repeat the last chunk.
            return None if self._full_duplex else Proceed(Phase.REQUEST_BODY)
        self._length += len(message.body)
        if self._length > self._max_body_bytes:
            raise BodyTooLarge(f"the request body exceeds {self._max_body_bytes} bytes")
        self._chunks.append(message.body)
        if not self._full_duplex:
            body = b"".join(self._chunks)
            partial = self._request_mode == pb.BUFFERED_PARTIAL and not message.end_of_stream
            # Before trailers a whole body comes like a cut one; but no JSON is whole when cut.
            hidden = partial and not is_complete(body)
            return self._ready(None if hidden else body, Phase.REQUEST_BODY)
        if message.end_of_stream:
            return self._ready(b"".join(self._chunks), Phase.REQUEST_BODY, echo=True)
        return None

    def _request_trailers(self) -> Event:
        if self._full_duplex and not self._decided:
            return self._ready(b"".join(self._chunks), Phase.REQUEST_BODY, echo=True, trailers=True)
        return Proceed(Phase.REQUEST_TRAILERS)

    def _ready(
        self, body: bytes | None, at: Phase, *, echo: bool = False, trailers: bool = False
    ) -> RequestReady:
        self._decided = True
        self._chunks = []
        return RequestReady(self.headers, body, at, echo, trailers, self._subset)

    def _response_headers(self, message: pb.HttpHeaders, served: str) -> Event:
        headers = names.flatten(message.headers)
        self.streaming = not message.end_of_stream
        status = headers.get(":status", "")
        return ResponseStarted(
            status=int(status) if status.isascii() and status.isdigit() else 0,
            headers=headers,
            end=message.end_of_stream,
            # Full duplex requests: Envoy takes no override of any mode.
            streamable=self._response_mode == pb.NONE and not self._full_duplex,
            seen=self._response_mode != pb.NONE,
            served=served,
        )

    def _response_body(self, message: pb.HttpBody) -> Event:
        self.streaming = self.streaming and not message.end_of_stream
        return ResponseChunk(message.body, message.end_of_stream, self.echoes_answers)
