"""One request through the proxy, in order: read, prefill elsewhere if told so, pass on. IO."""

from __future__ import annotations

import logging
import random
import uuid
from collections.abc import AsyncIterator, Iterable, Sequence

import msgspec
from aiohttp import web
from multidict import CIMultiDict

from pd_sidecar import bodies, headers
from pd_sidecar.allow import Address, AllowList, parse_address
from pd_sidecar.config import Config
from pd_sidecar.connectors.alone import Alone
from pd_sidecar.connectors.prefill import refused
from pd_sidecar.connectors.types import Answer, Call, Connector, Headers, Outcome
from pd_sidecar.encode import Encoded, encode
from pd_sidecar.engines import HttpEngines
from pd_sidecar.errors import Refused, SidecarError, TooLarge
from pd_sidecar.stats import Stats
from pd_sidecar.usage import StreamCorrector, corrected

log = logging.getLogger(__name__)

_RESULTS = {
    Outcome.OK: "ok",
    Outcome.REFUSED: "ok",
    Outcome.FAILED: "failed",
    Outcome.NO_CACHE: "failed",
    Outcome.NOT_TAKEN: "failed",
}
"""What the router is told of a prefill engine; a refused request is no fault of the engine."""


class Proxy:
    """Stands before the decode engine of one rank, or of all."""

    def __init__(
        self,
        config: Config,
        engines: HttpEngines,
        connector: Connector,
        allow: AllowList,
        stats: Stats,
        rank: int = 0,
    ) -> None:
        self._config = config
        self._engines = engines
        self._connector = connector
        self._alone = Alone(engines)
        self._allow = allow
        self._stats = stats
        self._rank = rank

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Any request. Refusals and engines out of reach become errors in vLLM's shape."""
        try:
            return await self._handle(request)
        except Refused as error:
            self._stats.denied += 1
            log.warning("prefill.denied", extra={"why": str(error)})
            return _error(error)
        except SidecarError as error:
            self._stats.failed += 1
            log.warning("request.failed", extra={"path": request.path, "why": str(error)})
            if request.writer.output_size > 0:
                # The answer has begun: to cut it is all that is left.
                raise ConnectionResetError(str(error)) from error
            return _error(error)

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        generates = request.method == "POST" and request.path in bodies.PATHS
        body = await self._body(request) if generates else None
        prefiller, encoders = self._others(request) if generates else (None, ())
        fields = bodies.read(body) if body is not None and (prefiller or encoders) else None
        if body is None or fields is None:
            return await self._pass_on(request, body)
        call = Call(
            api=request.path,
            target=_target(request),
            headers=_with_id(headers.to_engine(request.headers.items(), same_body=False)),
            body=body,
            fields=fields,
            prefiller=prefiller,
            rank=self._rank_of(request),
        )
        if encoders:
            encoded = await encode(self._engines, call, encoders)
            if encoded.refusal is not None:
                return await _relay(request, refused(encoded.refusal, Outcome.UNNEEDED))
            call = self._with_media(call, encoded)
        connector = self._connector if prefiller else self._alone
        async with connector.answer(call) as answer:
            if prefiller:
                self._stats.prefills[answer.outcome] += 1
            return await _relay(request, answer)

    def _with_media(self, call: Call, encoded: Encoded) -> Call:
        """The call as the next engine gets it; media that nobody encoded are its own to encode."""
        self._stats.encoded += encoded.done
        self._stats.not_encoded += encoded.failed
        if encoded.fields == call.fields:
            return call
        body = bodies.write(encoded.fields)
        return msgspec.structs.replace(call, fields=encoded.fields, body=body)

    async def _pass_on(self, request: web.Request, body: bytes | None) -> web.StreamResponse:
        self._stats.alone += body is not None
        given = tuple(headers.to_engine(request.headers.items(), same_body=True))
        sent = request.content if body is None and request.body_exists else body
        passed = self._engines.passed(
            request.method, _target(request), given, sent, self._rank_of(request)
        )
        async with passed as reply:
            return await _relay(request, Answer(reply, Outcome.UNNEEDED))

    async def _body(self, request: web.Request) -> bytes:
        """Raises TooLarge."""
        try:
            return await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            most = self._config.max_body_bytes
            raise TooLarge(f"the request body exceeds {most} bytes") from error

    def _others(self, request: web.Request) -> tuple[Address | None, Sequence[Address]]:
        """Where to prefill, if anywhere, and where to encode. Raises Refused."""
        prefillers = _named(request, headers.PREFILLER)
        if self._config.sample_prefillers:
            random.shuffle(prefillers)
        encoders = _named(request, headers.ENCODERS) if self._config.encodes else []
        prefiller = self._allowed(prefillers[0]) if prefillers else None
        return prefiller, [self._allowed(text) for text in encoders]

    def _allowed(self, text: str) -> Address:
        """Raises Refused."""
        address = parse_address(text)
        if address is None or not self._allow.allows(address):
            raise Refused(f"{text[:256]} may not be called")
        return address

    def _rank_of(self, request: web.Request) -> int:
        """The rank that a header names by its port, else this proxy's own."""
        address = parse_address(request.headers.get(headers.DATA_PARALLEL, ""))
        rank = self._rank if address is None else address[1] - self._config.port
        return rank if 0 <= rank < self._config.ranks else self._rank


def _target(request: web.Request) -> str:
    """Path and query as the client wrote them; of a whole URL, whatever host it names, these."""
    written = request.raw_path
    return written if written.startswith("/") else request.rel_url.raw_path_qs


def _named(request: web.Request, header: str) -> list[str]:
    """The addresses in a header, as they stand there."""
    parts = (part.strip() for part in request.headers.get(header, "").split(","))
    return [part for part in parts if part]


def _with_id(given: Iterable[tuple[str, str]]) -> Headers:
    """Both engines know the request by one id."""
    listed = tuple(given)
    if any(name.lower() == headers.REQUEST_ID for name, _ in listed):
        return listed
    return (*listed, (headers.REQUEST_ID, uuid.uuid4().hex))


async def _relay(request: web.Request, answer: Answer) -> web.StreamResponse:
    """Send an answer on as it comes, its usage corrected."""
    reply = answer.reply
    given = {name.lower(): value for name, value in reply.headers}
    kind, cached = given.get("content-type", ""), answer.cached_tokens
    if reply.status != 200 or "content-encoding" in given:
        cached = None
    to_client = headers.to_client(reply.headers, same_body=cached is None)
    response = web.StreamResponse(status=reply.status, headers=CIMultiDict(to_client))
    if answer.outcome in _RESULTS:
        response.headers[headers.RESULT] = _RESULTS[answer.outcome]
    await response.prepare(request)
    async for chunk in _corrected(reply.chunks, kind, cached):
        if chunk:  # an empty one would end a chunked body
            await response.write(chunk)
    await response.write_eof()
    return response


async def _corrected(
    chunks: AsyncIterator[bytes], kind: str, cached: int | None
) -> AsyncIterator[bytes]:
    """The body with `cached` as its cached tokens: a stream line by line, JSON as a whole."""
    if cached is None:
        async for chunk in chunks:
            yield chunk
    elif "event-stream" in kind:
        corrector = StreamCorrector(cached)
        async for chunk in chunks:
            yield corrector.feed(chunk)
        yield corrector.end()
    else:
        yield corrected(b"".join([chunk async for chunk in chunks]), cached)


def _error(error: SidecarError) -> web.Response:
    return web.json_response(error.body(), status=error.status)
