"""Token ids from the tokenizer sidecar, over one long-lived stream. IO."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import grpc
import structlog

from router.producers.facts import Tokens
from router.producers.token_calls import Calls
from router.producers.token_dial import Pauses, SocketReplaced, channel, identity, is_replaced
from router.producers.tokens import Missing, TokenStats
from router.request.types import Request
from tokenizer_sidecar.pb import tokenizer_pb2 as pb
from tokenizer_sidecar.pb.tokenizer_pb2_grpc import TokenizerStub

log = structlog.get_logger()

WATCH_S = 1.0
"""Between two looks at which models are served, and at the socket, once all models are ready."""

LOADING_S = 0.25
"""The same while a model is not ready."""

LIST_S = 5.0
"""How long the sidecar may take to list its models."""

_OUTCOMES: Mapping[int, Missing] = {
    pb.UNKNOWN_MODEL: Missing.UNKNOWN_MODEL,
    pb.NOT_READY: Missing.NOT_READY,
    pb.REFUSED: Missing.REFUSED,
    pb.UNSUPPORTED: Missing.UNSUPPORTED,
    pb.EXPIRED: Missing.EXPIRED,
    pb.BUSY: Missing.BUSY,
}


class SidecarClient:
    """The router's end of the stream. `run` keeps it open; `tokenize` uses it."""

    def __init__(self, socket: str, timeout_s: float, max_message_bytes: int) -> None:
        self._socket = Path(socket)
        self._timeout_s = timeout_s
        self._max_message_bytes = max_message_bytes
        self._calls: Calls | None = None
        self.stats = TokenStats()

    async def tokenize(self, model: str, request: Request) -> Tokens | Missing:
        """The first prompt's tokens, or why there are none."""
        if self._calls is None:
            return Missing.UNAVAILABLE
        try:
            answer = await self._calls.ask(model, request.kind, request.body, self._timeout_s)
        except TimeoutError:
            return Missing.TIMEOUT
        except ConnectionError:
            return Missing.UNAVAILABLE
        if answer.outcome == pb.OK:
            return Tokens(answer.token_ids, partial=answer.partial)
        return _OUTCOMES.get(answer.outcome, Missing.FAILED)

    async def run(self) -> None:
        """Keep a stream open until cancelled."""
        pauses, loop = Pauses(), asyncio.get_running_loop()
        while True:
            async with channel(f"unix:{self._socket}", self._max_message_bytes) as opened:
                await opened.channel_ready()
                began = loop.time()
                await self._stream(opened)
            await asyncio.sleep(pauses.after(loop.time() - began))

    async def _stream(self, opened: grpc.aio.Channel) -> None:
        calls = self._calls = Calls()
        self.stats.connected = True
        self.stats.not_ready = ("not told yet",)
        self.stats.connections += 1
        log.info("tokenizer.connected", socket=str(self._socket))
        try:
            async with asyncio.TaskGroup() as group:
                watching = group.create_task(self._watch(opened))
                async for reply in TokenizerStub(opened).Tokenize(calls.messages()):
                    calls.answered(reply)
                watching.cancel()
            self._lost("the sidecar ended the stream")
        except* grpc.aio.AioRpcError as errors:
            self._lost(", ".join(map(_told, errors.exceptions)))
        except* SocketReplaced:
            self._lost("another socket lies at its path")
        finally:
            self._calls = None
            self.stats.connected = False
            self.stats.not_ready = ()
            calls.lost()

    def _lost(self, reason: str) -> None:
        log.warning("tokenizer.lost", socket=str(self._socket), reason=reason)

    async def _watch(self, opened: grpc.aio.Channel) -> None:
        """Keep `stats.not_ready` true. Raises SocketReplaced."""
        dialled = identity(self._socket)
        can_list = True
        while True:
            can_list = can_list and await self._list_models(opened)
            await asyncio.sleep(LOADING_S if self.stats.not_ready else WATCH_S)
            if is_replaced(self._socket, dialled):
                raise SocketReplaced

    async def _list_models(self, opened: grpc.aio.Channel) -> bool:
        """Whether the sidecar can tell at all; one that cannot counts as ready."""
        try:
            told = await TokenizerStub(opened).ListModels(pb.ListModelsRequest(), timeout=LIST_S)
        except grpc.aio.AioRpcError as error:
            # One that hangs, or is about to end the stream, is asked again.
            if error.code() != grpc.StatusCode.UNIMPLEMENTED:
                return True
            self.stats.not_ready = ()
            return False
        self.stats.not_ready = [
            f"{model.name}: {model.message}" for model in told.models if not model.ready
        ]
        return True


def _told(error: BaseException) -> str:
    """An RPC's failure in a line; its own text has several."""
    if not isinstance(error, grpc.aio.AioRpcError):
        return str(error)
    return f"{error.code().name}: {error.details()}"
