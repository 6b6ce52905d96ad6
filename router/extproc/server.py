"""The gRPC service Envoy calls: each message in, each reply out. IO.

A stream lives as long as its HTTP exchange, so its end is the request's end, normal or not.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterable
from typing import cast

import grpc
import structlog

from router.director import Director
from router.errors import BodyTooLarge, RouterError
from router.extproc import headers as names
from router.extproc import reply
from router.extproc.exchange import (
    Event,
    Exchange,
    Phase,
    Proceed,
    RequestReady,
    ResponseChunk,
    ResponseStarted,
    ResponseTrailers,
)
from router.extproc.pb import ext_proc_pb2 as pb
from router.extproc.stats import StreamStats
from router.routed import Reading, Routed

log = structlog.get_logger()

SETTLE_S = 0.001
"""gRPC tells that a call was cancelled just after the end of its messages, which is all that is
heard otherwise."""


class ExternalProcessor:
    """One call of `Process` is one HTTP exchange.

    `Process` is a coroutine that writes, not a generator that yields: cancelled, it runs its
    `finally` at once.
    """

    def __init__(
        self, director: Director, max_body_bytes: int, *, tells_ends: bool = False
    ) -> None:
        """`tells_ends`: it is counted how streams end."""
        self._director = director
        self._max_body_bytes = max_body_bytes
        self._streams: set[_Stream] = set()
        self._finishing = False
        self.stats = StreamStats(tells_ends=tells_ends)

    def finish(self) -> None:
        """End the streams of requests that are on their way: their answers go on without us.

        A data plane takes a stream that ends well for consent to all that comes, and one that
        breaks for a failure, which cuts the answer off.
        """
        self._finishing = True
        for stream in self._streams:
            if stream.is_needless:
                stream.task.cancel()

    async def Process(  # noqa: N802 - the name is Envoy's
        self,
        request_iterator: AsyncIterator[pb.ProcessingRequest],
        context: grpc.aio.ServicerContext[pb.ProcessingRequest, pb.ProcessingResponse],
    ) -> None:
        self.stats.open += 1
        self.stats.total += 1
        began_s = time.monotonic()
        stream = _Stream(self._director, Exchange(self._max_body_bytes), self.stats)
        self._streams.add(stream)
        try:
            async for message in request_iterator:
                stream.waits = False
                for answer in await stream.answer(message):
                    await context.write(answer)
                stream.waits = True
                if self._finishing and stream.is_needless:
                    break
            if self.stats.tells_ends:
                await asyncio.sleep(SETTLE_S)
        except asyncio.CancelledError:
            # By `finish`, or by whoever called: then nobody reads how it ends.
            if not (self._finishing and stream.is_needless):
                raise
        except RouterError as error:
            await context.write(reply.refused(error))
        except Exception:
            # The outermost edge: one exchange fails, the others and the process go on.
            self.stats.failed += 1
            log.exception("extproc.failed")
            await context.write(reply.refused(RouterError("internal error of the router")))
        finally:
            # No await here: a cancelled stream must still give back what its request holds.
            self.stats.open -= 1
            self.stats.closed(_code(sys.exception()), time.monotonic() - began_s)
            self._streams.discard(stream)
            stream.close()


def _code(error: BaseException | None) -> str:
    """What gRPC calls the status of a stream that ends so."""
    if error is None:
        return "OK"
    return "Canceled" if isinstance(error, asyncio.CancelledError) else "Unknown"


class _Stream:
    """One exchange and the request it became.

    Attributes:
        task: Runs it.
        waits: It has answered all that was said.
    """

    def __init__(self, director: Director, exchange: Exchange, stats: StreamStats) -> None:
        self._director = director
        self._exchange = exchange
        self._stats = stats
        self._routed: Routed | None = None
        self.task = cast("asyncio.Task[None]", asyncio.current_task())
        self.waits = False
        self._started_at: float | None = None

    async def answer(self, message: pb.ProcessingRequest) -> Iterable[pb.ProcessingResponse]:
        """What Envoy is told after `message`. Raises RouterError."""
        match self._event(message):
            case RequestReady() as ready:
                routed = await self._director.route(ready.headers, ready.body, ready.subset)
                self._routed = routed
                routing = reply.Routing(
                    routed.destination, routed.headers, routed.body, routed.scores
                )
                return reply.routed(ready, routing)
            case ResponseStarted() as started:
                return (self._started(started),)
            case ResponseChunk() as chunk:
                return self._chunk(chunk)
            case ResponseTrailers(echo):
                return self._trailers(echo=echo)
            case Proceed(phase):
                return (reply.proceed(phase),)
            case None:
                return ()

    @property
    def is_needless(self) -> bool:
        """The request has its endpoint, and its answer needs nothing that passes through here."""
        if self._routed is None or not self.waits:
            return False
        return self._routed.renamer is None and not self._exchange.echoes_answers

    def close(self) -> None:
        """The stream is over."""
        if self._exchange.observed:
            self._stats.observed += 1
        if self._started_at is not None and self._exchange.streaming:
            self._stats.streamed(time.monotonic() - self._started_at)
        if self._routed is not None:
            self._director.ended(self._routed)
            self._routed = None

    def _event(self, message: pb.ProcessingRequest) -> Event:
        """What it means. Raises BodyTooLarge."""
        try:
            return self._exchange.receive(message)
        except BodyTooLarge as error:
            self._director.refused(self._exchange.headers, error)
            raise

    def _started(self, started: ResponseStarted) -> pb.ProcessingResponse:
        if self._routed is None:
            # Envoy refuses a body above its own limit before it shows it.
            if started.status == BodyTooLarge.status:
                error = BodyTooLarge("the request body exceeds the data plane's limit")
                self._director.refused(self._exchange.headers, error)
            return reply.proceed(Phase.RESPONSE_HEADERS)
        reading = self._director.responded(
            self._routed, started.status, started.headers, started.served
        )
        if self._routed.record.streamed and not started.end:
            self._started_at = time.monotonic()
        shown = started.streamable or started.seen
        if started.end or not shown:
            # Nobody will show a body.
            self._routed.renamer, reading = None, Reading.NOTHING
            self._routed.whole = True
        elif started.seen:
            self._routed.whole = False
        return reply.started(
            self._routed.answer_headers,
            body=started.streamable and reading is not Reading.NOTHING,
            resized=reading is Reading.CHANGE,
            reported=names.PREFILL_RESULT in started.headers,
        )

    def _chunk(self, chunk: ResponseChunk) -> Iterable[pb.ProcessingResponse]:
        data = chunk.data
        if self._routed is not None:
            data = self._director.chunk(self._routed, data, end=chunk.end)
        if chunk.echo:
            return reply.echoed(data, end=chunk.end)
        if self._routed is not None and self._routed.reading is Reading.CHANGE:
            return (reply.changed(data),)
        return (reply.proceed(Phase.RESPONSE_BODY),)

    def _trailers(self, *, echo: bool) -> Iterable[pb.ProcessingResponse]:
        """Trailers end the response; what was held back of its body goes before them."""
        rest = b""
        if self._routed is not None:
            rest = self._director.chunk(self._routed, b"", end=True)
        if rest and echo:
            yield from reply.echoed(rest, end=False)
        yield reply.proceed(Phase.RESPONSE_TRAILERS)
