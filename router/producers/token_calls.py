"""The calls of one stream to the sidecar: those to send, in order, and those that wait. IO.

A call is told how much of its time is left when it is sent, not when it is made: it may have waited
for the stream. One that nobody waits for any more is not sent, or, if it has been, withdrawn.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from itertools import count

from router.request.types import Kind
from tokenizer_sidecar.pb import tokenizer_pb2 as pb

KINDS = {Kind.COMPLETION: pb.COMPLETION, Kind.CHAT: pb.CHAT}

_MAX_TIMEOUT_MS = 2**32 - 1
"""The contract's field has 32 bits."""


class _Call:
    """
    Attributes:
        unsent: What to send; None once it has been sent or need not be.
        sent: The sidecar has it, or will have.
    """

    def __init__(
        self, unsent: pb.TokenizeRequest, expires_at: float, reply: asyncio.Future[pb.TokenizeReply]
    ) -> None:
        self.unsent: pb.TokenizeRequest | None = unsent
        self.expires_at = expires_at
        self.reply = reply
        self.sent = False


class Calls:
    """`messages` is the stream's writing end, `answered` its reading end, `ask` uses both."""

    def __init__(self) -> None:
        self._ids = count(1)
        self._waiting: dict[int, _Call] = {}
        self._outbox: deque[_Call | pb.TokenizeRequest] = deque()
        self._filled = asyncio.Event()
        self._lost = False
        self._alarm: asyncio.TimerHandle | None = None

    @property
    def waiting(self) -> int:
        """Calls without an answer."""
        return len(self._waiting)

    async def ask(self, model: str, kind: Kind, body: bytes, timeout_s: float) -> pb.TokenizeReply:
        """The sidecar's reply. Raises TimeoutError, and ConnectionError once the stream is lost."""
        loop = asyncio.get_running_loop()
        id_ = next(self._ids)
        request = pb.TokenizeRequest(id=id_, model=model, kind=KINDS[kind], body=body)
        call = _Call(request, loop.time() + timeout_s, loop.create_future())
        self._waiting[id_] = call
        self._put(call)
        self._wake_at(call.expires_at, loop)
        try:
            return await call.reply
        finally:
            if self._waiting.pop(id_, None) is not None:
                self._give_up(id_, call)

    def answered(self, reply: pb.TokenizeReply) -> None:
        """A reply came; if late, nobody waits for it."""
        call = self._waiting.pop(reply.id, None)
        if call is not None and not call.reply.done():
            call.reply.set_result(reply)

    def lost(self) -> None:
        """There will be no more replies."""
        for call in self._waiting.values():
            if not call.reply.done():
                call.reply.set_exception(ConnectionError("the sidecar's stream ended"))
        self._waiting.clear()
        self._lost = True
        self._filled.set()
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None

    async def messages(self) -> AsyncIterator[pb.TokenizeRequest]:
        """What to write, as it comes; ends when the stream is lost."""
        while not self._lost:
            await self._filled.wait()
            self._filled.clear()
            while self._outbox and not self._lost:
                message = self._outbox.popleft()
                if isinstance(message, _Call):
                    request = _begun(message)
                    if request is not None:
                        yield request
                else:
                    yield message

    def _wake_at(self, expires_at: float, loop: asyncio.AbstractEventLoop) -> None:
        """One alarm for all calls, at the end of the first one: a timer for each would cost each,
        and nearly none is needed."""
        if self._alarm is not None and self._alarm.when() <= expires_at:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = loop.call_at(expires_at, self._expire, loop)

    def _expire(self, loop: asyncio.AbstractEventLoop) -> None:
        """End the calls whose time is up, and sleep until that of the next one."""
        self._alarm, now = None, loop.time()
        for call in self._waiting.values():
            if call.expires_at <= now and not call.reply.done():
                call.reply.set_exception(TimeoutError())
        left = [call.expires_at for call in self._waiting.values() if not call.reply.done()]
        if left:
            self._wake_at(min(left), loop)

    def _put(self, message: _Call | pb.TokenizeRequest) -> None:
        self._outbox.append(message)
        self._filled.set()

    def _give_up(self, id_: int, call: _Call) -> None:
        call.unsent = None  # bodies may be large, and a stream that hangs takes none
        if call.sent:
            self._put(pb.TokenizeRequest(id=id_, cancel=True))


def _begun(call: _Call) -> pb.TokenizeRequest | None:
    """The call's message, with the time that is left; None where none is or nobody waits."""
    request, left_s = call.unsent, call.expires_at - call.reply.get_loop().time()
    if request is None or left_s <= 0:
        return None
    call.unsent, call.sent = None, True
    request.timeout_ms = max(1, min(int(left_s * 1000), _MAX_TIMEOUT_MS))
    return request
