"""Calls over a stream that a test plays: what is written when, and what becomes of the answers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from router.producers.token_calls import Calls
from router.request.types import Kind
from tests.support.processes import until
from tokenizer_sidecar.pb import tokenizer_pb2 as pb


class Wire:
    """The writing end of a stream, which takes a message only when a test asks for one."""

    def __init__(self, calls: Calls) -> None:
        self.calls = calls
        self._messages = calls.messages()

    async def next(self) -> pb.TokenizeRequest:
        async with asyncio.timeout(20):
            return await anext(self._messages)

    async def rest(self) -> list[pb.TokenizeRequest]:
        """Everything, to the end."""
        return [message async for message in self._messages]

    @asynccontextmanager
    async def asked(
        self, body: bytes = b"{}", timeout_s: float = 60.0
    ) -> AsyncIterator[asyncio.Task[pb.TokenizeReply | str]]:
        """A call that has been made, given up at the end if it still waits."""
        before = self.calls.waiting
        async with asyncio.TaskGroup() as group:
            call = group.create_task(self._outcome(body, timeout_s))
            await until(lambda: self.calls.waiting > before)
            yield call
            call.cancel()

    async def _outcome(self, body: bytes, timeout_s: float) -> pb.TokenizeReply | str:
        """The reply, or the name of the error."""
        try:
            return await self.calls.ask("tiny", Kind.CHAT, body, timeout_s)
        except (TimeoutError, ConnectionError) as error:
            return type(error).__name__


@pytest.fixture
def wire() -> Wire:
    return Wire(Calls())


async def test_a_call_gets_the_reply_of_its_number(wire: Wire) -> None:
    async with wire.asked(b"1") as first, wire.asked(b"2") as second:
        sent = [await wire.next(), await wire.next()]
        assert [(each.body, each.kind, each.model) for each in sent] == [
            (b"1", pb.CHAT, "tiny"),
            (b"2", pb.CHAT, "tiny"),
        ]
        for each in reversed(sent):
            wire.calls.answered(pb.TokenizeReply(id=each.id, message=each.body.decode()))
        replies = [await first, await second]
        assert [reply.message for reply in replies if not isinstance(reply, str)] == ["1", "2"]
        assert wire.calls.waiting == 0


async def test_a_call_is_sent_with_the_time_that_is_left(wire: Wire) -> None:
    async with wire.asked(timeout_s=60.0):
        await asyncio.sleep(0.05)
        assert 1000 < (await wire.next()).timeout_ms <= 59_950


async def test_a_time_beyond_the_field_is_the_longest_there_is(wire: Wire) -> None:
    async with wire.asked(timeout_s=1e9):
        assert (await wire.next()).timeout_ms == 2**32 - 1


async def test_a_call_that_was_given_up_before_it_was_sent_is_never_sent(wire: Wire) -> None:
    async with wire.asked(b"given up") as call:
        call.cancel()
        await until(call.done)
    with pytest.raises(TimeoutError):
        await wire.calls.ask("tiny", Kind.CHAT, b"too late", 0.01)
    async with wire.asked(b"wanted"):
        assert (await wire.next()).body == b"wanted"


@pytest.mark.parametrize("how", ["cancelled", "out of time"])
async def test_a_call_that_was_sent_and_is_given_up_is_withdrawn(wire: Wire, how: str) -> None:
    async with wire.asked(timeout_s=0.05 if how == "out of time" else 60.0) as call:
        sent = await wire.next()
        if how == "cancelled":
            call.cancel()
            await until(call.done)
        else:
            assert await call == "TimeoutError"
        withdrawn = await wire.next()
        assert (withdrawn.id, withdrawn.cancel, withdrawn.body) == (sent.id, True, b"")
        wire.calls.answered(pb.TokenizeReply(id=sent.id))  # late: nobody minds


async def test_an_answered_call_is_not_withdrawn(wire: Wire) -> None:
    async with wire.asked() as call:
        sent = await wire.next()
        wire.calls.answered(pb.TokenizeReply(id=sent.id))
        await call
    async with wire.asked(b"next"):
        assert (await wire.next()).body == b"next"


async def test_a_lost_stream_ends_every_call_at_once(wire: Wire) -> None:
    async with wire.asked() as sent, wire.asked() as unsent:
        await wire.next()
        wire.calls.lost()
        assert [await sent, await unsent] == ["ConnectionError"] * 2
        assert wire.calls.waiting == 0


async def test_a_lost_stream_has_nothing_more_to_write(wire: Wire) -> None:
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        reading = group.create_task(wire.rest())
        await asyncio.sleep(0)
        wire.calls.lost()
    assert reading.result() == []


async def test_each_call_ends_at_its_own_time_whatever_the_order_they_were_made_in(
    wire: Wire,
) -> None:
    async with (
        wire.asked(timeout_s=0.3) as middle,
        wire.asked(timeout_s=0.05) as first,
        wire.asked(timeout_s=60.0) as last,
    ):
        assert await first == "TimeoutError"
        assert not middle.done()
        assert await middle == "TimeoutError"
        assert not last.done()


async def test_calls_run_out_of_time_also_after_others_did(wire: Wire) -> None:
    for _ in range(3):
        async with wire.asked(timeout_s=0.02) as call:
            assert await call == "TimeoutError"
