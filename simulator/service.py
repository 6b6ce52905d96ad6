"""What all routes of one engine share, from the model's name to the ranks. IO."""

from __future__ import annotations

import asyncio
import secrets
import time
import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec
from aiohttp import web

from simulator.adapters import Served
from simulator.config import EngineConfig
from simulator.errors import ApiError
from simulator.language import Language
from simulator.metrics import Metrics
from simulator.openai import Ask, Kind, parse_json
from simulator.prepare import Preparer
from simulator.rank import Rank
from simulator.responses import Head
from simulator.transfer import Exports

_THREAD_FROM_BYTES = 32 * 1024
"""Bodies from here on are rendered and hashed off the loop: it takes a millisecond and more."""

_T = TypeVar("_T")


class Service:
    """
    Attributes:
        in_flight: Generating requests at this moment.
        topic: The topic frame of the events.
        port: The HTTP port.
        exports: Prompts that other engines may fetch.
    """

    def __init__(
        self,
        config: EngineConfig,
        language: Language,
        preparer: Preparer,
        ranks: Sequence[Rank],
        metrics: Metrics,
        topic: str,
        port: int,
    ) -> None:
        self.config = config
        self.language = language
        self.preparer = preparer
        self.ranks = ranks
        self.metrics = metrics
        self.topic = topic
        self.port = port
        self.exports = Exports(str(uuid.uuid4()))
        self.served = Served(config.model, config.loaded_adapters())
        self.in_flight = 0

    def pick_rank(self, header: str | None) -> Rank:
        """The rank that X-data-parallel-rank names, else the one with least to do."""
        wanted = _as_int(header)
        if wanted is None:
            return min(self.ranks, key=lambda rank: rank.unfinished)
        if not 0 <= wanted < len(self.ranks):
            raise ApiError.bad(
                f"data_parallel_rank {wanted} is out of range [0, {len(self.ranks)})."
            )
        return self.ranks[wanted]


SERVICE = web.AppKey("service", Service)


def service_of(request: web.Request) -> Service:
    return request.app[SERVICE]


def head_of(request: web.Request, kind: Kind, ask: Ask) -> Head:
    """The id comes from X-Request-Id, else from the body, else from chance."""
    header = request.headers.get("X-Request-Id", "")
    # Header bytes are Latin-1, as uvicorn reads them.
    named = header.encode("utf-8", "surrogateescape").decode("latin-1")
    given = named or ask.request_id or secrets.token_hex(8)
    prefix = "chatcmpl" if kind == "chat" else "cmpl"
    model = ask.model or request.app[SERVICE].config.model
    return Head(kind, f"{prefix}-{given}", int(time.time()), model, ask)


async def json_body(request: web.Request) -> tuple[dict[str, Any], int]:
    """The body and its size in bytes. Raises ApiError."""
    if request.content_type != "application/json":
        raise ApiError.invalid("Unsupported Media Type: Only 'application/json' is allowed", None)
    raw = await request.read()
    return parse_json(raw), len(raw)


def json_response(body: object, status: int = 200) -> web.Response:
    return web.Response(
        status=status, body=msgspec.json.encode(body), content_type="application/json"
    )


async def off_loop_if_large(size_bytes: int, work: Callable[[], _T]) -> _T:
    """Do the work here, or in a thread if the body it works on is large."""
    return work() if size_bytes < _THREAD_FROM_BYTES else await asyncio.to_thread(work)


def _as_int(text: str | None) -> int | None:
    try:
        return int(text or "")
    except ValueError:
        return None
