"""The conductor's HTTP port: `/register`, `/query` and their like. IO."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import TypeVar

from aiohttp import web

from indexer.conductor.conductor import BadEvent, Duplicate, NotFound
from indexer.conductor.service import ConductorService
from indexer.conductor.wire import (
    Codec,
    Events,
    Malformed,
    Query,
    QueryByHash,
    Register,
    Unregister,
)
from indexer.conductor.workers import workers

MAX_BODY_BYTES = 64 << 20

_OK = {"status": "ok"}

_STATUSES: dict[type[Exception], HTTPStatus] = {
    BadEvent: HTTPStatus.BAD_REQUEST,
    Malformed: HTTPStatus.BAD_REQUEST,
    NotFound: HTTPStatus.NOT_FOUND,
    Duplicate: HTTPStatus.CONFLICT,
}

_T = TypeVar("_T")
_Reply = tuple[HTTPStatus, object]


def application(service: ConductorService) -> web.Application:
    """All routes."""
    app = web.Application(client_max_size=MAX_BODY_BYTES)
    handlers = _Handlers(service)
    app.add_routes(
        [
            web.post("/register", _handler(Register, handlers.register)),
            web.post("/unregister", _handler(Unregister, handlers.unregister)),
            web.post("/query", _handler(Query, handlers.query)),
            web.post("/query_by_hash", _handler(QueryByHash, handlers.query_by_hash)),
            web.post("/events", _handler(Events, handlers.events)),
            web.get("/health", handlers.health),
            web.get("/workers", handlers.workers),
        ]
    )
    return app


def _handler(
    kind: type[_T], handle: Callable[[_T], Awaitable[_Reply]]
) -> Callable[[web.Request], Awaitable[web.Response]]:
    """Reads a body of a kind, and answers in the same encoding."""

    async def respond(request: web.Request) -> web.Response:
        codec = Codec(request.headers.get("content-type", ""))
        try:
            status, answer = await handle(codec.decode(await request.read(), kind))
        except tuple(_STATUSES) as error:
            applied = {"events_applied": error.applied} if isinstance(error, BadEvent) else {}
            status, answer = _STATUSES[type(error)], {"error": str(error), **applied}
        return web.Response(
            body=codec.encode(answer), status=status, content_type=codec.content_type
        )

    return respond


class _Handlers:
    def __init__(self, service: ConductorService) -> None:
        self._service = service
        self._conductor = service.conductor

    async def register(self, request: Register) -> _Reply:
        self._conductor.register(request)
        await self._service.changed()
        return HTTPStatus.CREATED, _OK

    async def unregister(self, request: Unregister) -> _Reply:
        self._conductor.unregister(request)
        await self._service.changed()
        return HTTPStatus.OK, _OK

    async def query(self, asked: Query) -> _Reply:
        return HTTPStatus.OK, self._conductor.query(asked)

    async def query_by_hash(self, asked: QueryByHash) -> _Reply:
        return HTTPStatus.OK, self._conductor.query_by_hash(asked)

    async def events(self, posted: Events) -> _Reply:
        return HTTPStatus.OK, {**_OK, "events_applied": self._conductor.events(posted)}

    async def health(self, request: web.Request) -> web.Response:
        return web.Response(text="OK")

    async def workers(self, request: web.Request) -> web.Response:
        codec = Codec("")
        return web.Response(
            body=codec.encode(workers(self._conductor)), content_type=codec.content_type
        )
