"""One client's stream, without a wire: what is read when, what is written, what is withdrawn."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.tokenizer_sidecar.wire import until
from tokenizer_sidecar.pb.tokenizer_pb2 import TokenizeReply, TokenizeRequest
from tokenizer_sidecar.stats import Stats
from tokenizer_sidecar.stream import Stream


class Played:
    """A client and a service in one: a test says what is sent and when an answer is known.

    Attributes:
        began: Requests whose answer was asked for, in order.
        written: Replies, in order.
    """

    def __init__(self, max_in_flight: int = 8) -> None:
        self.began: list[int] = []
        self.written: list[int] = []
        self.stats = Stats()
        self._known: dict[int, asyncio.Event] = {}
        self._sent: asyncio.Queue[TokenizeRequest | None] = asyncio.Queue()
        self._stream = Stream(self, self._write, self.stats, max_in_flight)

    def send(self, id_: int, *, body: bytes = b"long", cancel: bool = False) -> None:
        self._sent.put_nowait(TokenizeRequest(id=id_, body=body, cancel=cancel))

    def know(self, id_: int) -> None:
        self._event(id_).set()

    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """The client ends the stream at the end, and waits for what is not answered."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._stream.read(self._requests(), group))
            yield
            self._sent.put_nowait(None)

    def at_once(self, request: TokenizeRequest) -> TokenizeReply | None:
        return TokenizeReply(id=request.id) if request.body == b"short" else None

    async def answer(self, request: TokenizeRequest) -> TokenizeReply:
        self.began.append(request.id)
        await self._event(request.id).wait()
        return TokenizeReply(id=request.id)

    def _event(self, id_: int) -> asyncio.Event:
        return self._known.setdefault(id_, asyncio.Event())

    async def _requests(self) -> AsyncIterator[TokenizeRequest]:
        while (request := await self._sent.get()) is not None:
            yield request

    async def _write(self, reply: TokenizeReply) -> None:
        await asyncio.sleep(0)
        self.written.append(reply.id)


async def test_replies_are_written_as_they_become_known() -> None:
    played = Played()
    async with played.open():
        for i in range(3):
            played.send(i)
        await until(lambda: played.began == [0, 1, 2])
        assert played.stats.in_flight == 3
        for i in (2, 0, 1):
            played.know(i)
            await until(lambda i=i: i in played.written)  # type: ignore[misc]
    assert played.written == [2, 0, 1]
    assert played.stats.in_flight == 0


async def test_what_takes_no_time_passes_what_waits() -> None:
    played = Played(max_in_flight=2)
    async with played.open():
        played.send(1)
        played.send(2, body=b"short")
        await until(lambda: played.written == [2])
        played.know(1)
    assert played.written == [2, 1]


async def test_reading_pauses_at_the_limit() -> None:
    played = Played(max_in_flight=2)
    async with played.open():
        for i in range(3):
            played.send(i)
        await until(lambda: len(played.began) == 2)
        played.send(9, body=b"short")
        played.know(1)
        await until(lambda: 9 in played.written or played.began == [0, 1, 2])
        assert played.began == [0, 1, 2]
        assert 9 not in played.written
        for i in (0, 2):
            played.know(i)
    assert sorted(played.written) == [0, 1, 2, 9]


async def test_what_is_withdrawn_is_not_answered_and_gives_its_place_to_another() -> None:
    played = Played(max_in_flight=2)
    async with played.open():
        played.send(1)
        await until(lambda: played.began == [1])
        played.send(1, cancel=True)
        played.send(77, cancel=True)  # never asked
        for i in (2, 3):
            played.send(i)
            played.know(i)
        await until(lambda: played.written == [2, 3])
        played.send(3, cancel=True)  # answered already
    assert played.written == [2, 3]
    assert played.stats.requests == {"CANCELLED": 1}
    assert played.stats.in_flight == 0


async def test_what_is_withdrawn_before_its_first_step_leaves_nothing_behind() -> None:
    played = Played(max_in_flight=2)
    played.send(1)
    played.send(1, cancel=True)
    played.send(2)
    played.know(2)
    async with played.open():
        await until(lambda: played.written == [2])
    assert played.stats.in_flight == 0
