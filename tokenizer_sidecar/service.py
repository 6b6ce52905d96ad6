"""The gRPC service: streams of tokenize requests in, replies in the order they get done out. IO."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from math import inf
from traceback import extract_tb

import grpc
import structlog

from tokenizer_sidecar import answer
from tokenizer_sidecar.answer import refusal
from tokenizer_sidecar.errors import without_panics
from tokenizer_sidecar.lanes import Busy, Expired, Lane
from tokenizer_sidecar.models import Models
from tokenizer_sidecar.pb.tokenizer_pb2 import (
    BUSY,
    EXPIRED,
    FAILED,
    NOT_READY,
    UNKNOWN_MODEL,
    UNSUPPORTED,
    ListModelsReply,
    ListModelsRequest,
    Model,
    Outcome,
    TokenizeReply,
    TokenizeRequest,
)
from tokenizer_sidecar.stats import Stats
from tokenizer_sidecar.stream import Stream

log = structlog.get_logger(__name__)

Context = grpc.aio.ServicerContext[TokenizeRequest, TokenizeReply]

_OUTCOMES = {value: name for name, value in Outcome.items()}

_LONG_BODY_BYTES = 64 * 1024
"""Bodies from here on have threads of their own, so that a burst of them cannot hold up others."""


class Service:
    """What the contract's Tokenizer service does.

    Very short bodies are answered on the event loop, where they take less than handing them to a
    thread does. All others are parsed, rendered and encoded in threads. The encoders release the
    interpreter lock, so a long prompt costs the others a core, not the loop.

    Args:
        max_in_flight: Requests of one stream that are worked on; reading pauses beyond it.
        max_queued: Requests of all streams that wait for a thread; further ones are refused.
        inline_bytes: Longest body that is answered on the event loop.
        max_ids_bytes: Most that the ids of one reply may take.
    """

    def __init__(
        self,
        models: Models,
        stats: Stats,
        *,
        workers: int,
        max_in_flight: int,
        max_queued: int = 1024,
        inline_bytes: int = 0,
        max_ids_bytes: int = 64 * 1024 * 1024,
    ) -> None:
        self._models = models
        self._stats = stats
        self._max_in_flight = max_in_flight
        self._inline_bytes = inline_bytes
        self._max_ids_bytes = max_ids_bytes
        self._short = Lane("tokenize-short", workers, max_queued)
        self._long = Lane("tokenize-long", workers, max_queued)
        self._readers: set[asyncio.Task[None]] = set()
        self._draining = False

    async def Tokenize(  # noqa: N802 - the name is the contract's
        self, requests: AsyncIterator[TokenizeRequest], context: Context
    ) -> None:
        """Read requests and answer each as soon as it is done, until the client ends the stream."""
        stream = Stream(self, context.write, self._stats, self._max_in_flight)
        async with asyncio.TaskGroup() as group:
            if not self._draining:
                reader = group.create_task(stream.read(requests, group))
                self._readers.add(reader)
                reader.add_done_callback(self._readers.discard)

    async def ListModels(  # noqa: N802 - the name is the contract's
        self, request: ListModelsRequest, context: object
    ) -> ListModelsReply:
        """Every configured model, and what keeps it from being ready."""
        return ListModelsReply(
            models=[
                Model(name=name, ready=entry.renderer is not None, message=entry.message)
                for name, entry in self._models.entries.items()
            ]
        )

    def drain(self) -> None:
        """Read no more requests; streams end once what was read is answered."""
        self._draining = True
        for reader in self._readers:
            reader.cancel()

    def close(self) -> None:
        """Give up the threads. A running encode finishes by itself."""
        self._short.close()
        self._long.close()

    @property
    def queued(self) -> int:
        """Requests that wait for a thread."""
        return self._short.waiting + self._long.waiting

    def at_once(self, request: TokenizeRequest) -> TokenizeReply | None:
        """The reply to a request with a very short body, else None."""
        if len(request.body) > self._inline_bytes:
            return None
        started = time.perf_counter()
        try:
            reply = self._unavailable(request) or self._worked(
                *without_panics(partial(self._work, request))
            )
        except Exception as error:  # the edge: no request may end the stream of the others
            reply = _failed(request, error)
        self._count(reply, time.perf_counter() - started)
        return reply

    async def answer(self, request: TokenizeRequest) -> TokenizeReply:
        """The reply, from a thread."""
        expires_at = _expiry(request)
        started = time.perf_counter()
        try:
            reply = self._unavailable(request) or self._worked(
                *await self._lane(request).run(partial(self._work, request), expires_at)
            )
        except Expired:
            reply = refusal(request.id, EXPIRED, f"not begun within {request.timeout_ms} ms")
        except Busy:
            reply = refusal(request.id, BUSY, f"{self.queued} requests are waiting")
        except Exception as error:  # the edge: no request may end the stream of the others
            reply = _failed(request, error)
        self._count(reply, time.perf_counter() - started)
        return reply

    def _unavailable(self, request: TokenizeRequest) -> TokenizeReply | None:
        entry = self._models.entries.get(request.model)
        if entry is None:
            return refusal(request.id, UNKNOWN_MODEL, f"no tokenizer for {request.model!r}")
        if entry.renderer is None:
            return refusal(request.id, NOT_READY, entry.message)
        return None

    def _work(self, request: TokenizeRequest) -> tuple[TokenizeReply, float]:
        """The reply, and how long it took without waiting."""
        started = time.perf_counter()
        renderer = self._models.entries[request.model].renderer
        assert renderer is not None, "a model that is ready stays so"
        reply = answer.answer(renderer, request.id, request.kind, request.body)
        if len(reply.token_ids) > self._max_ids_bytes:
            # gRPC would end the stream of all others over it.
            message = f"{len(reply.token_ids) // 4} ids do not fit into a message"
            reply = refusal(request.id, UNSUPPORTED, message)
        return reply, time.perf_counter() - started

    def _worked(self, reply: TokenizeReply, work_s: float) -> TokenizeReply:
        self._stats.work_s += work_s
        return reply

    def _lane(self, request: TokenizeRequest) -> Lane:
        return self._long if len(request.body) >= _LONG_BODY_BYTES else self._short

    def _count(self, reply: TokenizeReply, took_s: float) -> None:
        self._stats.answered(_OUTCOMES[reply.outcome], len(reply.token_ids) // 4, took_s)


def _expiry(request: TokenizeRequest) -> float:
    """When the request's time is over, in the loop's time."""
    if not request.timeout_ms:
        return inf
    return asyncio.get_running_loop().time() + request.timeout_ms / 1000


def _failed(request: TokenizeRequest, error: Exception) -> TokenizeReply:
    return refusal(request.id, FAILED, fault(error, request.model))


def fault(error: Exception, model: str) -> str:
    """Log a fault of the sidecar; what the client is told of it."""
    # The message could quote a prompt; where it happened cannot.
    at = extract_tb(error.__traceback__)[-1]
    where = f"{at.filename}:{at.lineno}"
    log.error("tokenize.failed", error=type(error).__name__, at=where, model=model)
    return f"{type(error).__name__} in the sidecar"
