"""One client's stream: its requests worked on side by side, each answered once it is done. IO."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from typing import Protocol

from tokenizer_sidecar.pb.tokenizer_pb2 import TokenizeReply, TokenizeRequest
from tokenizer_sidecar.stats import Stats


class Answers(Protocol):
    """Who knows the answers."""

    def at_once(self, request: TokenizeRequest) -> TokenizeReply | None:
        """The reply to a request that takes no longer than it would to put it aside, else None."""

    async def answer(self, request: TokenizeRequest) -> TokenizeReply:
        """The reply; raises nothing but CancelledError."""


class Stream:
    """
    Args:
        write: Sends a reply.
        max_in_flight: Requests that are worked on; reading pauses beyond it.
    """

    def __init__(
        self,
        answers: Answers,
        write: Callable[[TokenizeReply], Awaitable[None]],
        stats: Stats,
        max_in_flight: int,
    ) -> None:
        self._answers = answers
        self._write = write
        self._stats = stats
        self._slots = asyncio.Semaphore(max_in_flight)
        self._writing = asyncio.Lock()
        self._answering: dict[int, asyncio.Task[None]] = {}

    async def read(
        self, requests: AsyncIterator[TokenizeRequest], group: asyncio.TaskGroup
    ) -> None:
        """Read to the end; `group` answers, and may do so for longer."""
        # A slot first, then a request: what has been read is never left waiting and forgotten.
        await self._slots.acquire()
        async for request in requests:
            if request.cancel:
                self._withdraw(request.id)
            elif (reply := self._answers.at_once(request)) is not None:
                await self._send(reply)
            else:
                self._begin(request, group)
                await self._slots.acquire()

    def _begin(self, request: TokenizeRequest, group: asyncio.TaskGroup) -> None:
        self._stats.in_flight += 1
        task = group.create_task(self._handle(request))
        # A callback, because a task cancelled before its first step runs no `finally` of its own.
        task.add_done_callback(partial(self._done, request.id))
        self._answering[request.id] = task

    async def _handle(self, request: TokenizeRequest) -> None:
        reply = await self._answers.answer(request)
        # From here on it cannot be withdrawn: a message half written would end the stream.
        self._answering.pop(request.id, None)
        await self._send(reply)

    def _done(self, id_: int, _: asyncio.Task[None]) -> None:
        self._answering.pop(id_, None)
        self._stats.in_flight -= 1
        self._slots.release()

    def _withdraw(self, id_: int) -> None:
        task = self._answering.get(id_)
        if task is not None and task.cancel():
            self._stats.requests["CANCELLED"] += 1

    async def _send(self, reply: TokenizeReply) -> None:
        async with self._writing:
            await self._write(reply)
