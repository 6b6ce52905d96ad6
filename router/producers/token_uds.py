"""Token ids from llm-d's tokenizer service, over gRPC on a Unix socket. IO."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path

import grpc
import msgspec
import structlog

from indexer.hashing import pack
from router.producers import media
from router.producers.facts import Tokens
from router.producers.token_dial import Pauses, SocketReplaced, channel, identity, is_replaced
from router.producers.tokens import Missing, TokenStats
from router.producers.uds_requests import UdsRequest, Unspeakable, has_parts, uds_request
from router.request.types import Request
from tokenizer_sidecar.pb import tokenization_pb2 as pb
from tokenizer_sidecar.pb.tokenization_pb2_grpc import TokenizationServiceStub

log = structlog.get_logger()

TIMEOUT_S = 5.0
"""What a prompt may cost; llm-d's figure, as the next one."""

MEDIA_TIMEOUT_S = 30.0
"""The same where a message has parts."""

INITIALIZE_S = 30.0
"""How long the service may take to load the model, before it is asked again."""

RETRY_S = 1.0
"""Pause between two such questions."""

LOOK_S = 0.25
"""Between two looks at the connection."""

_CODES: Mapping[grpc.StatusCode, Missing] = {
    grpc.StatusCode.DEADLINE_EXCEEDED: Missing.TIMEOUT,
    grpc.StatusCode.UNAVAILABLE: Missing.UNAVAILABLE,
    grpc.StatusCode.INVALID_ARGUMENT: Missing.REFUSED,
    grpc.StatusCode.NOT_FOUND: Missing.UNKNOWN_MODEL,
    grpc.StatusCode.UNIMPLEMENTED: Missing.UNSUPPORTED,
    grpc.StatusCode.RESOURCE_EXHAUSTED: Missing.BUSY,
}


class UdsClient:
    """Asks the service; `run` keeps the connection and has the model loaded."""

    def __init__(
        self,
        address: str,
        model: str,
        max_message_bytes: int,
        *,
        tcp: bool = False,
        timeout_s: float = TIMEOUT_S,
        media_timeout_s: float = MEDIA_TIMEOUT_S,
    ) -> None:
        """`address` is the socket's path; with `tcp`, host and port. `model` is used for every
        request."""
        self._target = address if tcp else f"unix:{address}"
        self._path = None if tcp else Path(address)
        self._model = model
        self._max_message_bytes = max_message_bytes
        self._timeout_s = timeout_s
        self._media_timeout_s = media_timeout_s
        self._channel: grpc.aio.Channel | None = None
        self.stats = TokenStats()

    async def tokenize(self, model: str, request: Request) -> Tokens | Missing:
        """The first prompt's tokens, or why there are none."""
        if self._channel is None:
            return Missing.UNAVAILABLE
        if self.stats.not_ready:
            return Missing.NOT_READY
        try:
            asked = uds_request(request, self._model)
        except Unspeakable:
            return Missing.UNSUPPORTED
        except (msgspec.DecodeError, UnicodeDecodeError):
            return Missing.REFUSED
        try:
            return await self._ask(self._channel, asked)
        except grpc.aio.AioRpcError as error:
            return _CODES.get(error.code(), Missing.FAILED)
        except asyncio.CancelledError:
            # A channel that closes cancels its calls, and so, it seems, whoever waits for them.
            task = asyncio.current_task()
            if task is not None and task.cancelling():
                raise
            return Missing.UNAVAILABLE

    async def run(self) -> None:
        """Keep a connection open until cancelled."""
        pauses, loop = Pauses(), asyncio.get_running_loop()
        while True:
            async with channel(self._target, self._max_message_bytes) as opened:
                await opened.channel_ready()
                began = loop.time()
                await self._serve(opened)
            await asyncio.sleep(pauses.after(loop.time() - began))

    async def _ask(self, opened: grpc.aio.Channel, asked: UdsRequest) -> Tokens | Missing:
        stub = TokenizationServiceStub(opened)
        timeout_s = self._media_timeout_s if has_parts(asked) else self._timeout_s
        match asked:
            case pb.RenderChatCompletionRequest():
                chat = await stub.RenderChatCompletion(asked, timeout=timeout_s)
                return _chat_tokens(chat) if chat.success else Missing.REFUSED
            case pb.RenderCompletionRequest():
                text = await stub.RenderCompletion(asked, timeout=timeout_s)
                return Tokens(pack(text.token_ids)) if text.success else Missing.REFUSED
            case pb.TokenizeRequest():
                plain = await stub.Tokenize(asked, timeout=timeout_s)
                return Tokens(pack(plain.input_ids)) if plain.success else Missing.REFUSED

    async def _serve(self, opened: grpc.aio.Channel) -> None:
        stats = self.stats
        self._channel, stats.connected = opened, True
        stats.not_ready = (f"{self._model}: not told yet",)
        stats.connections += 1
        log.info("tokenizer.connected", address=self._target)
        try:
            async with asyncio.TaskGroup() as group:
                initializing = group.create_task(self._initialize(opened))
                await self._until_lost(opened)
                initializing.cancel()
            reason = "the connection is gone"
        except* SocketReplaced:
            reason = "another socket lies at its path"
        finally:
            self._channel, stats.connected, stats.not_ready = None, False, ()
        log.warning("tokenizer.lost", address=self._target, reason=reason)

    async def _initialize(self, opened: grpc.aio.Channel) -> None:
        """Ask for the model until it is there; a service that needs no asking counts as ready."""
        asked = pb.InitializeTokenizerRequest(model_name=self._model, add_generation_prompt=True)
        while True:
            try:
                told = await TokenizationServiceStub(opened).InitializeTokenizer(
                    asked, timeout=INITIALIZE_S
                )
                message = "" if told.success else told.error_message or "not ready"
            except grpc.aio.AioRpcError as error:
                unimplemented = error.code() == grpc.StatusCode.UNIMPLEMENTED
                message = "" if unimplemented else str(error.details())
            self.stats.not_ready = (f"{self._model}: {message}",) if message else ()
            if not message:
                return
            await asyncio.sleep(RETRY_S)

    async def _until_lost(self, opened: grpc.aio.Channel) -> None:
        """Raises SocketReplaced."""
        dialled = identity(self._path) if self._path else None
        while opened.get_state() == grpc.ChannelConnectivity.READY:
            await asyncio.sleep(LOOK_S)
            if self._path and is_replaced(self._path, dialled):
                raise SocketReplaced


def _chat_tokens(chat: pb.RenderChatCompletionResponse) -> Tokens | Missing:
    features = chat.features
    hashes = {kind: list(told.values) for kind, told in features.mm_hashes.items()}
    places = {kind: list(told.ranges) for kind, told in features.mm_placeholders.items()}
    try:
        found = media.items(hashes, places, len(chat.token_ids))
    except ValueError:
        return Missing.FAILED
    return Tokens(pack(chat.token_ids), found)
