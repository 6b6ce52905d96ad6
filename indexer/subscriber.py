"""Subscriptions: the ZMQ sockets that event streams come over, read on the event loop. IO."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import msgspec
import structlog
import zmq

from indexer.central import Central
from indexer.feed import Feed, Source
from indexer.prefix_index import PrefixIndex
from indexer.replayer import Replayer
from indexer.sockets import Context, Monitored, receive
from indexer.turns import Turns

UPKEEP_S = 0.1
"""Pause between looks at replays, expired guesses and cleared holders."""
BUSY_UPKEEP_S = 0.005
"""The same while there is clearing up to do."""

READ_BYTES = 16384
"""Of messages that are taken in before the clock is looked at: a few hundred microseconds' work."""
MESSAGE_BYTES = 256
"""What a message counts for beside its payload."""

log = structlog.get_logger(__name__)


class SubscriberStats(msgspec.Struct):
    """
    Attributes:
        opened: Sockets opened so far.
        closed: Sockets closed so far.
        failed: Times an error of ours left messages out, mostly one each time.
        errors: Endpoint address and what ZMQ could not do (connect, recv, replay) -> how often.
    """

    opened: int = 0
    closed: int = 0
    failed: int = 0
    errors: Counter[tuple[str, str]] = msgspec.field(default_factory=Counter)


class _Stream:
    """A socket of one source, and its feed. A reader."""

    def __init__(self, owner: Subscriptions, source: Source, feed: Feed) -> None:
        """Raises ValueError or zmq.ZMQError."""
        self.feed = feed
        self.link = Monitored(owner.context, source.endpoint)
        self._owner = owner

    @property
    def sockets(self) -> Sequence[zmq.Socket[bytes]]:
        return self.link.sockets

    def read(self) -> bool:
        self.feed.defer()
        try:
            may_have_more = self._read_some()
        finally:
            self.feed.settle()
        if not may_have_more:
            self._look_at_connections()
        return may_have_more

    def _read_some(self) -> bool:
        wall_s = time.time()
        size = 0
        while size < READ_BYTES:
            try:
                frames, _ = receive(self.link.socket)
            except zmq.Again:
                return False
            self.feed.receive(frames, wall_s)
            size += MESSAGE_BYTES + len(frames[-1])
        return True

    def _look_at_connections(self) -> None:
        for came, _ in self.link.changes():
            if came:
                self.feed.connected()
            else:
                self.feed.lost()
                self._owner.replayer.cut(self.feed)

    def fail(self) -> None:
        self._owner.stats.failed += 1
        if isinstance(sys.exception(), zmq.ZMQError):
            self._owner.stats.errors[self.feed.source.holder.address, "recv"] += 1
        self.feed.missed_something()
        log.exception("kv_events.failed", endpoint=self.feed.source.endpoint)


class _Hub:
    """The socket that all engines connect to. A reader."""

    def __init__(self, owner: Subscriptions, endpoint: str, central: Central) -> None:
        """Raises ValueError or zmq.ZMQError."""
        self.central = central
        self.link = Monitored(owner.context, endpoint, bind=True)
        self._owner = owner

    @property
    def sockets(self) -> Sequence[zmq.Socket[bytes]]:
        return self.link.sockets

    def read(self) -> bool:
        try:
            frames, first = receive(self.link.socket)
        except zmq.Again:
            for came, descriptor in self.link.changes():
                if not came:
                    for feed in self.central.broke(descriptor):
                        self._owner.replayer.cut(feed)
            return False
        self.central.receive(frames, time.time(), int(first.get(zmq.SRCFD)))
        return True

    def fail(self) -> None:
        self._owner.stats.failed += 1
        for feed in self.central.feeds:
            feed.missed_something()
        log.exception("kv_events.failed", endpoint="central")


class Subscriptions:
    """Keeps the sockets that are wanted, and only those, and feeds the index from them.

    It also does the index's upkeep, since it runs as long as the index changes; for that it uses
    the clock of `time.monotonic`.

    Attributes:
        unusable: Sources that no socket could be made for, and why.
        replayer: Asks the engines for what is missing.
    """

    def __init__(self, context: Context, index: PrefixIndex) -> None:
        self.stats = SubscriberStats()
        self.unusable: dict[Source, str] = {}
        self.context = context
        self._turns = Turns()
        self.replayer = Replayer(context, self._turns, self.stats.errors)
        self._index = index
        self._streams: dict[Source, _Stream] = {}
        self._hub: _Hub | None = None
        self._upkeep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Open sockets of single sources."""
        return len(self._streams)

    def bind(self, endpoint: str, central: Central) -> None:
        """Open the socket that engines connect to; once. Raises ValueError or zmq.ZMQError."""
        self._hub = _Hub(self, endpoint, central)
        self._turns.add(self._hub)

    def sync(self, wanted: Iterable[Source]) -> None:
        """Subscribe to these sources and to nothing else; call it on the running loop.

        What has not changed is left alone; an unknown base model leaves alone what is known, and
        one that becomes known is passed on. A source that is gone or changed is closed and its
        holder dropped. A source that cannot be used is listed in `unusable` and tried again.
        """
        target: dict[Source, Source] = {}
        for source in wanted:
            key = _key(source)
            if source.base_model is not None or key not in target:
                target[key] = source
        for key, stream in list(self._streams.items()):
            if key not in target or not _learn(stream.feed, target[key]):
                self._close(key)
        known_unusable, self.unusable = self.unusable, {}
        for key, source in target.items():
            if key not in self._streams:
                self._open(key, source, source in known_unusable)
        if self._hub is not None:
            for feed in self._hub.central.sync():
                self.replayer.forget(feed)
        self._forget_errors(target)
        if self._upkeep is None:
            self._keep_up()

    def close(self) -> None:
        """Close all sockets and drop their holders."""
        for key in list(self._streams):
            self._close(key)
        if self._hub is not None:
            self._turns.remove(self._hub)
            self._hub.link.close()
            self._hub.central.close()
            self._hub = None
        self.replayer.close()
        self._turns.close()
        if self._upkeep is not None:
            self._upkeep.cancel()
            self._upkeep = None

    def feeds(self) -> Iterator[Feed]:
        """The streams that are read."""
        for stream in self._streams.values():
            yield stream.feed
        if self._hub is not None:
            yield from self._hub.central.feeds

    def _forget_errors(self, wanted: Iterable[Source]) -> None:
        """Those of endpoints that are gone."""
        known = {source.holder.address for source in wanted}
        known.update(feed.source.holder.address for feed in self.feeds())
        for address, operation in [key for key in self.stats.errors if key[0] not in known]:
            del self.stats.errors[address, operation]

    def _open(self, key: Source, source: Source, was_unusable: bool) -> None:
        feed = self._index.open(source)
        try:
            stream = _Stream(self, source, feed)
        except (zmq.ZMQError, ValueError) as error:
            self._index.close(feed)
            self.unusable[source] = str(error)
            self.stats.errors[source.holder.address, "connect"] += 1
            if not was_unusable:
                log.warning("kv_events.unusable", endpoint=source.endpoint, error=str(error))
            return
        self._streams[key] = stream
        self.stats.opened += 1
        self._turns.add(stream)

    def _close(self, key: Source) -> None:
        stream = self._streams.pop(key)
        self._turns.remove(stream)
        stream.link.close()
        self.replayer.forget(stream.feed)
        self._index.close(stream.feed)
        self.stats.closed += 1

    def _keep_up(self) -> None:
        busy = self._index.tick(time.monotonic())
        self.replayer.look(self.feeds())
        pause_s = BUSY_UPKEEP_S if busy else UPKEEP_S
        self._upkeep = asyncio.get_running_loop().call_later(pause_s, self._keep_up)


def _key(source: Source) -> Source:
    """What makes a source the same one as before: everything but its base model."""
    return msgspec.structs.replace(source, base_model=None)


def _learn(feed: Feed, source: Source) -> bool:
    """Tell an open stream its base model; False if it has been another one so far."""
    if source.base_model is None or source.base_model == feed.base_model:
        return True
    if feed.base_model is not None:
        return False
    feed.base_model = source.base_model
    return True
