"""The gRPC service: streams of tokenize requests in, replies in the order they get done out. IO."""

from __future__ import annotations

import asyncio
import time
from bisect import bisect_left
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from traceback import extract_tb

import grpc
import structlog

from tokenizer_sidecar.answer import answer, refusal
from tokenizer_sidecar.models import Models
from tokenizer_sidecar.pb.tokenizer_pb2 import (
    FAILED,
    NOT_READY,
    UNKNOWN_MODEL,
    ListModelsReply,
    ListModelsRequest,
    Model,
    Outcome,
    TokenizeReply,
    TokenizeRequest,
)
from tokenizer_sidecar.stats import ENCODE_BUCKETS_S, Stats

log = structlog.get_logger(__name__)

Context = grpc.aio.ServicerContext[TokenizeRequest, TokenizeReply]

_LONG_BODY_BYTES = 64 * 1024
"""Bodies from here on have threads of their own, so that a burst of them cannot hold up others."""


class Service:
    """What the contract's Tokenizer service does.

    The event loop only moves messages; parsing, rendering and encoding happen in threads. The
    encoder releases the interpreter lock, so a long prompt costs the others a core, not the loop.
    """

    def __init__(self, models: Models, stats: Stats, *, workers: int, max_in_flight: int) -> None:
        self._models = models
        self._stats = stats
        self._max_in_flight = max_in_flight
        self._short = ThreadPoolExecutor(workers, thread_name_prefix="tokenize-short")
        self._long = ThreadPoolExecutor(workers, thread_name_prefix="tokenize-long")
        self._readers: set[asyncio.Task[None]] = set()
        self._draining = False

    async def Tokenize(  # noqa: N802 - the name is the contract's
        self, requests: AsyncIterator[TokenizeRequest], context: Context
    ) -> None:
        """Read requests and answer each as soon as it is done, until the client ends the stream."""
        slots = asyncio.Semaphore(self._max_in_flight)
        writing = asyncio.Lock()

        async def handle(request: TokenizeRequest) -> None:
            reply = await self._answer(request)
            async with writing:
                await context.write(reply)

        # A callback, because a task cancelled before its first step runs no `finally` of its own.
        def done(_: asyncio.Task[None]) -> None:
            self._stats.in_flight -= 1
            slots.release()

        async def read(group: asyncio.TaskGroup) -> None:
            # A slot first, then a request: what has been read is never left waiting and forgotten.
            await slots.acquire()
            async for request in requests:
                self._stats.in_flight += 1
                group.create_task(handle(request)).add_done_callback(done)
                await slots.acquire()

        async with asyncio.TaskGroup() as group:
            if not self._draining:
                reader = group.create_task(read(group))
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
        for pool in (self._short, self._long):
            pool.shutdown(wait=False, cancel_futures=True)

    async def _answer(self, request: TokenizeRequest) -> TokenizeReply:
        started = time.perf_counter()
        try:
            reply = await self._reply(request)
        except Exception as error:  # the edge: no request may end the stream of the others
            # The message could quote a prompt; where it happened cannot.
            at = extract_tb(error.__traceback__)[-1]
            where = f"{at.filename}:{at.lineno}"
            log.error("tokenize.failed", error=type(error).__name__, at=where, model=request.model)
            reply = refusal(request.id, FAILED, f"{type(error).__name__} in the sidecar")
        self._count(reply, time.perf_counter() - started)
        return reply

    async def _reply(self, request: TokenizeRequest) -> TokenizeReply:
        entry = self._models.entries.get(request.model)
        if entry is None:
            return refusal(request.id, UNKNOWN_MODEL, f"no tokenizer for {request.model!r}")
        if entry.renderer is None:
            return refusal(request.id, NOT_READY, entry.message)
        body = request.body
        pool = self._long if len(body) >= _LONG_BODY_BYTES else self._short
        return await asyncio.get_running_loop().run_in_executor(
            pool, answer, entry.renderer, request.id, request.kind, body
        )

    def _count(self, reply: TokenizeReply, took_s: float) -> None:
        stats = self._stats
        stats.requests[Outcome.Name(reply.outcome)] += 1
        stats.tokens += len(reply.token_ids) // 4
        stats.encode_s += took_s
        stats.encode_buckets[bisect_left(ENCODE_BUCKETS_S, took_s)] += 1
