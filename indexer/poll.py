"""Polling: KV events of engines that hand them out over HTTP when asked (TensorRT-LLM). IO.

An answer empties the engine's buffer, so there may be only one reader; what another one took, or
what the buffer had no room for, shows as a hole in the numbers of the events. Ranks behind one
address have streams of their own.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable

import aiohttp
import msgspec
import structlog

from indexer.block import Holder
from indexer.engines.trtllm import Decoder, Entry
from indexer.feed import Feed, Source
from indexer.prefix_index import PrefixIndex

POLL_S = 0.2
FAILED_POLL_S = 2.0
TIMEOUT_S = 5.0
MAX_ANSWER_BYTES = 64 << 20
MAX_RANKS = 256
MAX_SEQ = (1 << 64) - 1
ENTRIES_PER_TURN = 64
"""Events that are applied before the loop has its turn."""

log = structlog.get_logger(__name__)


class _Failed(Exception):
    """An engine did not answer as it should; says why."""


class _Polled:
    """One engine, and the streams of its ranks."""

    def __init__(self, owner: Polls, source: Source) -> None:
        self.source = source
        self.feeds = {source.holder.rank: owner.index.open(source)}
        self._owner = owner
        self._decoder = Decoder()
        self._answers = 0
        self._reached: bool | None = None

    async def run(self, session: aiohttp.ClientSession) -> None:
        """Ask again and again until cancelled."""
        while True:
            try:
                body = await _ask(session, self.source.endpoint)
            except _Failed as error:
                self._fail(str(error))
                await asyncio.sleep(FAILED_POLL_S)
                continue
            self._connect()
            await self._take(body)
            await asyncio.sleep(POLL_S)

    def close(self) -> None:
        for feed in self.feeds.values():
            self._owner.index.close(feed)

    async def _take(self, body: bytes) -> None:
        wall_s = time.time()
        self._answers += 1
        for number, entry in enumerate(self._decoder.decode(body), 1):
            try:
                self._receive(entry, wall_s)
            except Exception:
                # The edge: what one engine says must not end the reading of the others.
                self._owner.failed += 1
                self._feed(0).missed_something()
                log.exception("kv_events.failed", endpoint=self.source.endpoint)
            if number % ENTRIES_PER_TURN == 0:
                await asyncio.sleep(0)

    def _receive(self, entry: Entry, wall_s: float) -> None:
        feed = self._feed(entry.batch.rank or 0)
        if entry.seq is None or entry.seq > MAX_SEQ:
            feed.rejected.update(entry.batch.rejected)
            feed.missed_something()
            return
        # An event comes once, so that it is another one with the same number tells its answer.
        mark = b"%d" % self._answers
        feed.receive([b"", entry.seq.to_bytes(8, "big"), mark], wall_s, entry.batch)

    def _feed(self, rank: int) -> Feed:
        if self.source.holder.rank or rank >= MAX_RANKS:
            rank = self.source.holder.rank
        feed = self.feeds.get(rank)
        if feed is None:
            holder = Holder(self.source.holder.address, rank)
            feed = self._owner.index.open(msgspec.structs.replace(self.source, holder=holder))
            feed.connected()
            feed.base_model = self.feeds[self.source.holder.rank].base_model
            self.feeds[rank] = feed
        return feed

    def _connect(self) -> None:
        if not self._reached:
            for feed in self.feeds.values():
                feed.connected()
        self._reached = True

    def _fail(self, why: str) -> None:
        if self._reached is not False:
            log.warning("kv_events.poll_failed", endpoint=self.source.endpoint, error=why)
            for feed in self.feeds.values():
                feed.lost()
        self._reached = False


class Polls:
    """Asks the engines that are wanted, and only those.

    Attributes:
        index: What it feeds.
        failed: Events that raised an error of ours and were left out.
    """

    def __init__(self, index: PrefixIndex) -> None:
        self.index = index
        self.failed = 0
        self._polled: dict[Source, _Polled] = {}
        self._tasks: dict[_Polled, asyncio.Task[None]] = {}
        self._changed = asyncio.Event()

    def __len__(self) -> int:
        """Engines that are asked."""
        return len(self._polled)

    def sync(self, wanted: Iterable[Source]) -> None:
        """Ask these engines, at the URLs that stand as their endpoints, and no others."""
        target = set(wanted)
        for source in self._polled.keys() - target:
            self._end(source)
        for source in target - self._polled.keys():
            self._polled[source] = _Polled(self, source)
        self._changed.set()

    def close(self) -> None:
        """Ask nobody any more, and drop what was known of them."""
        for source in list(self._polled):
            self._end(source)

    async def run(self) -> None:
        """Ask until cancelled."""
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            asyncio.TaskGroup() as group,
        ):
            while True:
                self._changed.clear()
                for polled in self._polled.values():
                    if polled not in self._tasks:
                        self._tasks[polled] = group.create_task(polled.run(session))
                await self._changed.wait()

    def _end(self, source: Source) -> None:
        polled = self._polled.pop(source)
        task = self._tasks.pop(polled, None)
        if task is not None:
            task.cancel()
        polled.close()


async def _ask(session: aiohttp.ClientSession, url: str) -> bytes:
    """What the engine has had to say since the last time. Raises _Failed."""
    try:
        async with session.post(url, allow_redirects=False) as response:
            if response.status != 200:
                raise _Failed(f"status {response.status}")
            body = bytearray()
            async for chunk in response.content.iter_any():
                body += chunk
                if len(body) > MAX_ANSWER_BYTES:
                    raise _Failed(f"more than {MAX_ANSWER_BYTES} bytes")
            return bytes(body)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        raise _Failed(str(error) or type(error).__name__) from error
