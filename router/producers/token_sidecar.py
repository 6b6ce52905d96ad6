"""Token ids from the tokenizer sidecar, over one long-lived stream. IO."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping

import grpc
import structlog

from router.producers.facts import Tokens
from router.producers.tokens import Missing, TokenStats
from router.request.types import Kind, Request
from tokenizer_sidecar.pb import tokenizer_pb2 as pb
from tokenizer_sidecar.pb.tokenizer_pb2_grpc import TokenizerStub

log = structlog.get_logger()

MODELS_S = 5.0
"""Between two looks at which models the sidecar serves, once all are ready."""

RECONNECT_S = 0.25
"""Pause before a lost sidecar is dialled again."""

_KINDS: Mapping[Kind, pb.Kind.ValueType] = {Kind.COMPLETION: pb.COMPLETION, Kind.CHAT: pb.CHAT}


_OUTCOMES: Mapping[int, Missing] = {
    pb.UNKNOWN_MODEL: Missing.UNKNOWN_MODEL,
    pb.NOT_READY: Missing.NOT_READY,
    pb.REFUSED: Missing.REFUSED,
    pb.UNSUPPORTED: Missing.UNSUPPORTED,
}


class SidecarClient:
    """The router's end of the stream. `run` keeps it open; `tokenize` uses it."""

    def __init__(self, socket: str, timeout_s: float, max_message_bytes: int) -> None:
        self._socket = socket
        self._timeout_s = timeout_s
        self._options = [
            ("grpc.max_send_message_length", max_message_bytes),
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 500),
        ]
        self._outbox: asyncio.Queue[pb.TokenizeRequest] | None = None
        self._waiting: dict[int, asyncio.Future[pb.TokenizeReply]] = {}
        self._next_id = 0
        self.stats = TokenStats()

    async def tokenize(self, model: str, request: Request) -> Tokens | Missing:
        """The first prompt's tokens, or why there are none."""
        if self._outbox is None:
            return Missing.UNAVAILABLE
        self._next_id += 1
        ident = self._next_id
        reply: asyncio.Future[pb.TokenizeReply] = asyncio.get_running_loop().create_future()
        self._waiting[ident] = reply
        kind = _KINDS[request.kind]
        asked = pb.TokenizeRequest(id=ident, model=model, kind=kind, body=request.body)
        self._outbox.put_nowait(asked)
        try:
            async with asyncio.timeout(self._timeout_s):
                answer = await reply
        except TimeoutError:
            return Missing.TIMEOUT
        except ConnectionError:
            return Missing.UNAVAILABLE
        finally:
            self._waiting.pop(ident, None)
        if answer.outcome == pb.OK:
            return Tokens(answer.token_ids)
        return _OUTCOMES.get(answer.outcome, Missing.FAILED)

    async def run(self) -> None:
        """Keep a stream open until cancelled."""
        while True:
            async with grpc.aio.insecure_channel(
                f"unix:{self._socket}", options=self._options
            ) as channel:
                await channel.channel_ready()
                await self._stream(channel)
            await asyncio.sleep(RECONNECT_S)

    async def _stream(self, channel: grpc.aio.Channel) -> None:
        outbox: asyncio.Queue[pb.TokenizeRequest] = asyncio.Queue()
        self._outbox = outbox
        self.stats.connected = True
        self.stats.not_ready = ("not told yet",)
        self.stats.connections += 1
        log.info("tokenizer.connected", socket=self._socket)
        stub = TokenizerStub(channel)
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch_models(channel))
                async for reply in stub.Tokenize(_drain(outbox)):
                    waiting = self._waiting.pop(reply.id, None)
                    if waiting is not None and not waiting.done():
                        waiting.set_result(reply)
                watching.cancel()
        except* grpc.aio.AioRpcError as group_:
            reasons = [str(error) for error in group_.exceptions]
            log.warning("tokenizer.lost", socket=self._socket, reason=reasons[0].split("\n")[0])
        finally:
            self._outbox = None
            self.stats.connected = False
            self.stats.not_ready = ()
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the sidecar's stream ended"))

    async def _watch_models(self, channel: grpc.aio.Channel) -> None:
        """Keep `stats.not_ready` true; a sidecar that cannot tell counts as ready."""
        while True:
            try:
                told = await TokenizerStub(channel).ListModels(pb.ListModelsRequest())
            except grpc.aio.AioRpcError:
                self.stats.not_ready = ()
                return
            self.stats.not_ready = [
                f"{model.name}: {model.message}" for model in told.models if not model.ready
            ]
            await asyncio.sleep(RECONNECT_S if self.stats.not_ready else MODELS_S)


async def _drain(outbox: asyncio.Queue[pb.TokenizeRequest]) -> AsyncIterator[pb.TokenizeRequest]:
    while True:
        yield await outbox.get()
