"""token-producer: the prompt's token ids, from the tokenizer sidecar. IO.

One long-lived stream carries all requests. While the sidecar is away, slow or does not know the
model, requests go on without tokens: that is counted by reason and costs at most the configured
budget.
"""

from __future__ import annotations

import asyncio
import enum
from collections import Counter
from collections.abc import AsyncIterator, Callable, Mapping, Sequence

import grpc
import msgspec
import structlog

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, Tokens
from router.producers.types import Lease
from router.request.types import Kind, Request
from router.scheduling.types import Decision
from tokenizer_sidecar.pb import tokenizer_pb2 as pb
from tokenizer_sidecar.pb.tokenizer_pb2_grpc import TokenizerStub

log = structlog.get_logger()

RECONNECT_S = 0.25
"""Pause before a lost sidecar is dialled again."""

_KINDS: Mapping[Kind, pb.Kind.ValueType] = {Kind.COMPLETION: pb.COMPLETION, Kind.CHAT: pb.CHAT}


class Missing(enum.StrEnum):
    """Why a request has no token ids."""

    UNAVAILABLE = "unavailable"
    TIMEOUT = "timeout"
    UNKNOWN_MODEL = "unknown_model"
    NOT_READY = "not_ready"
    REFUSED = "refused"
    UNSUPPORTED = "unsupported"
    FAILED = "failed"


_OUTCOMES: Mapping[int, Missing] = {
    pb.UNKNOWN_MODEL: Missing.UNKNOWN_MODEL,
    pb.NOT_READY: Missing.NOT_READY,
    pb.REFUSED: Missing.REFUSED,
    pb.UNSUPPORTED: Missing.UNSUPPORTED,
}


class SidecarStats:
    """What the client of the sidecar has seen.

    Attributes:
        tokenized: Requests that got their ids.
        missing: Reason -> requests that did not.
        connected: The stream stands.
        connections: Streams opened since the start.
    """

    def __init__(self) -> None:
        self.tokenized = 0
        self.missing: Counter[Missing] = Counter()
        self.connected = False
        self.connections = 0


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
        self.stats = SidecarStats()

    async def tokenize(self, model: str, kind: Kind, body: bytes) -> bytes | Missing:
        """The first prompt's ids as little-endian u32, or why there are none."""
        if self._outbox is None:
            return Missing.UNAVAILABLE
        self._next_id += 1
        ident = self._next_id
        reply: asyncio.Future[pb.TokenizeReply] = asyncio.get_running_loop().create_future()
        self._waiting[ident] = reply
        request = pb.TokenizeRequest(id=ident, model=model, kind=_KINDS[kind], body=body)
        self._outbox.put_nowait(request)
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
            return answer.token_ids
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
        self.stats.connections += 1
        log.info("tokenizer.connected", socket=self._socket)
        try:
            async for reply in TokenizerStub(channel).Tokenize(_drain(outbox)):
                waiting = self._waiting.pop(reply.id, None)
                if waiting is not None and not waiting.done():
                    waiting.set_result(reply)
        except grpc.aio.AioRpcError as error:
            log.warning("tokenizer.lost", socket=self._socket, reason=error.details())
        finally:
            self._outbox = None
            self.stats.connected = False
            for waiting in self._waiting.values():
                if not waiting.done():
                    waiting.set_exception(ConnectionError("the sidecar's stream ended"))


async def _drain(outbox: asyncio.Queue[pb.TokenizeRequest]) -> AsyncIterator[pb.TokenizeRequest]:
    while True:
        yield await outbox.get()


class SidecarParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """
    Attributes:
        socket: Path of the sidecar's Unix socket; empty: the router's ``--tokenizer-socket``.
        timeout: What tokenizing one request may cost, as a Go duration.
    """

    socket: str = ""
    timeout: str = "2s"


class TokenParameters(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """
    Attributes:
        model_name: Name of the tokenizer to use for every request; empty: the requested model's
            base.
        sidecar: Where ids come from.
    """

    model_name: str = ""
    sidecar: SidecarParameters = SidecarParameters()


class TokenProducer:
    """States Tokens."""

    def __init__(
        self, name: str, client: SidecarClient, model_of: Callable[[str], str], model_name: str = ""
    ) -> None:
        """`model_of` maps a requested model to the base model whose tokenizer applies."""
        self._name = name
        self._client = client
        self._model_of = model_of
        self._model_name = model_name

    async def produce(self, request: Request, endpoints: Sequence[Endpoint], facts: Facts) -> None:
        if not request.prompt_known:
            return
        if request.token_ids is not None:
            facts.put(Tokens(request.token_ids), self._name)
            return
        stats = self._client.stats
        model = self._model_name or self._model_of(request.model)
        ids = await self._client.tokenize(model, request.kind, request.body)
        if isinstance(ids, Missing):
            stats.missing[ids] += 1
            return
        stats.tokenized += 1
        facts.put(Tokens(ids), self._name)

    def decided(self, request: Request, facts: Facts, decision: Decision) -> Lease | None:
        return None
