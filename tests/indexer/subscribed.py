"""Real publishers and subscriptions, for tests that need sockets. IO."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

import zmq

from indexer.block import Holder
from indexer.feed import Feed
from indexer.hashing import pack
from indexer.prefix_index import PrefixIndex
from indexer.subscriber import Subscriptions
from tests.indexer import make
from tests.indexer.make import BASE, E1

PATIENCE_S = 10.0

Context = zmq.Context[zmq.Socket[bytes]]


class Publisher:
    """An engine's publisher: an XPUB, which hears of each subscription."""

    def __init__(self, context: Context, endpoint: str = "tcp://127.0.0.1:*") -> None:
        self.socket = context.socket(zmq.XPUB)
        self.socket.setsockopt(zmq.SNDHWM, 0)
        self.socket.setsockopt(zmq.LINGER, 0)
        self.socket.setsockopt(zmq.XPUB_VERBOSE, 1)
        self.socket.bind(endpoint)
        self.endpoint = self.socket.getsockopt_string(zmq.LAST_ENDPOINT)
        self.seq = 0

    def __enter__(self) -> Publisher:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.socket.close()

    async def heard(self, first_byte: int = 1) -> bytes:
        """Wait for a subscription (1) or its end (0); returns the topic filter."""
        async with asyncio.timeout(PATIENCE_S):
            while True:
                try:
                    message = self.socket.recv(zmq.NOBLOCK)
                except zmq.Again:
                    await asyncio.sleep(0.002)
                    continue
                if message[0] == first_byte:
                    return message[1:]

    def send(self, *events: object, topic: bytes = make.TOPIC) -> None:
        self.socket.send_multipart(make.frames(self.seq, *events, topic=topic, ts=self.seq))
        self.seq += 1


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():  # noqa: ASYNC110 - what is waited for sets no event
            await asyncio.sleep(0.002)


class Bench:
    def __init__(self, context: Context) -> None:
        self.index = PrefixIndex(16)
        self.subscriptions = Subscriptions(context, self.index)

    def score(self, holder: Holder = E1) -> int:
        match = self.index.match([BASE], pack(make.prompt()), 0.0).matches.get(holder)
        return match.blocks if match else 0

    def feed(self) -> Feed:
        (feed,) = self.index.feeds()
        return feed
