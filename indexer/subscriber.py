"""Subscriptions: one ZMQ SUB socket per event source, read on the event loop. IO."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Iterable

import msgspec
import structlog
import zmq

from indexer.feed import Source
from indexer.prefix_index import PrefixIndex

TURN_S = 0.002
"""Time the loop gives to events before it looks at everything else again."""
BURST_MESSAGES = 32
"""Messages from one source before the next one has its turn."""
UPKEEP_S = 0.1
"""Pause between looks at expired guesses and cleared holders."""
BUSY_UPKEEP_S = 0.005
"""The same while there is clearing up to do."""

_OPTIONS = (
    (zmq.RCVHWM, 0),  # a bound would lose events silently
    (zmq.LINGER, 0),
    (zmq.IPV6, 1),
    (zmq.MAXMSGSIZE, 64 << 20),
    (zmq.RECONNECT_IVL, 100),
    (zmq.RECONNECT_IVL_MAX, 2000),
    (zmq.CONNECT_TIMEOUT, 5000),
    (zmq.TCP_KEEPALIVE, 1),
    (zmq.TCP_KEEPALIVE_IDLE, 10),
    (zmq.TCP_KEEPALIVE_INTVL, 5),
    (zmq.TCP_KEEPALIVE_CNT, 3),
)

log = structlog.get_logger(__name__)


class SubscriberStats(msgspec.Struct):
    """
    Attributes:
        opened: Sockets opened so far.
        closed: Sockets closed so far.
        failed: Messages that raised an error of ours and were left out.
    """

    opened: int = 0
    closed: int = 0
    failed: int = 0


class _Stream:
    """A source's socket, the monitor that tells of its disconnections, and its feed."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], source: Source, index: PrefixIndex
    ) -> None:
        _check_port(source.endpoint)
        self.source = source
        self.is_queued = False
        self.is_open = True
        self.socket = context.socket(zmq.SUB)
        self.monitor = self.socket.get_monitor_socket(zmq.EVENT_DISCONNECTED)
        try:
            for option, value in _OPTIONS:
                self.socket.setsockopt(option, value)
            self.socket.setsockopt(zmq.SUBSCRIBE, source.topic_filter.encode())
            self.socket.connect(source.endpoint)
        except zmq.ZMQError:
            self.close()
            raise
        self.feed = index.open(source)

    def close(self) -> None:
        self.is_open = False
        self.socket.disable_monitor()
        self.monitor.close(linger=0)
        self.socket.close(linger=0)

    def receive(self) -> list[bytes]:
        """The next message; raises zmq.Again if there is none.

        A frame knows whether more follow, which spares the question `recv_multipart` asks of the
        socket after each.
        """
        frame = self.socket.recv(zmq.NOBLOCK, copy=False)
        frames = [frame.bytes]
        while frame.more:
            frame = self.socket.recv(zmq.NOBLOCK, copy=False)
            frames.append(frame.bytes)
        return frames

    def was_disconnected(self) -> bool:
        """Whether the connection broke since the last call."""
        broke = False
        try:
            while True:
                self.monitor.recv_multipart(zmq.NOBLOCK)
                broke = True
        except zmq.Again:
            return broke


class Subscriptions:
    """Keeps the sockets that are wanted, and only those, and feeds the index from them.

    It also does the index's upkeep, since it runs as long as the index changes; for that it uses
    the clock of `time.monotonic`.

    Attributes:
        unusable: Sources that no socket could be made for, and why.
    """

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], index: PrefixIndex) -> None:
        self.stats = SubscriberStats()
        self.unusable: dict[Source, str] = {}
        self._context = context
        self._index = index
        self._streams: dict[Source, _Stream] = {}
        self._ready: deque[_Stream] = deque()
        self._turn: asyncio.Handle | None = None
        self._upkeep: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        """Open sockets."""
        return len(self._streams)

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
            if key not in target or not _learn(stream, target[key]):
                self._close(key)
        known_unusable, self.unusable = self.unusable, {}
        for key, source in target.items():
            if key not in self._streams:
                self._open(key, source, source in known_unusable)
        if self._upkeep is None:
            self._keep_up()

    def close(self) -> None:
        """Close all sockets and drop their holders."""
        for key in list(self._streams):
            self._close(key)
        for handle in (self._turn, self._upkeep):
            if handle is not None:
                handle.cancel()
        self._turn = self._upkeep = None

    def _open(self, key: Source, source: Source, was_unusable: bool) -> None:
        try:
            stream = _Stream(self._context, source, self._index)
        except (zmq.ZMQError, ValueError) as error:
            self.unusable[source] = str(error)
            if not was_unusable:
                log.warning("kv_events.unusable", endpoint=source.endpoint, error=str(error))
            return
        self._streams[key] = stream
        self.stats.opened += 1
        loop = asyncio.get_running_loop()
        for socket in (stream.socket, stream.monitor):
            loop.add_reader(socket.FD, self._wake, stream)
        self._wake(stream)  # what came before the reader makes no edge

    def _close(self, key: Source) -> None:
        stream = self._streams.pop(key)
        loop = asyncio.get_running_loop()
        for socket in (stream.socket, stream.monitor):
            loop.remove_reader(socket.FD)
        stream.close()
        self._index.close(stream.feed)
        self.stats.closed += 1

    def _wake(self, stream: _Stream) -> None:
        if not stream.is_queued:
            stream.is_queued = True
            self._ready.append(stream)
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def _take_turn(self) -> None:
        """Read from the sources that have something, in turn, until the time is up."""
        self._turn = None
        deadline = time.monotonic() + TURN_S
        while self._ready and time.monotonic() < deadline:
            stream = self._ready.popleft()
            stream.is_queued = False
            if stream.is_open and not self._drain(stream, deadline):
                self._wake(stream)
        if self._ready and self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def _drain(self, stream: _Stream, deadline: float) -> bool:
        """Read until nothing is left; False if the turn was over before.

        The socket's descriptor tells only that something changed, so it must be read to the end.
        """
        for _ in range(BURST_MESSAGES):
            try:
                frames = stream.receive()
            except zmq.Again:
                if stream.was_disconnected():
                    stream.feed.lost()
                return True
            self._receive(stream, frames)
            if time.monotonic() >= deadline:
                return False
        return False

    def _receive(self, stream: _Stream, frames: list[bytes]) -> None:
        try:
            stream.feed.receive(frames, time.time())
        except Exception:
            # The edge: one engine's message must not end the reading of the others.
            self.stats.failed += 1
            stream.feed.missed_something()
            log.exception("kv_events.failed", endpoint=stream.source.endpoint)

    def _keep_up(self) -> None:
        busy = self._index.tick(time.monotonic())
        pause_s = BUSY_UPKEEP_S if busy else UPKEEP_S
        self._upkeep = asyncio.get_running_loop().call_later(pause_s, self._keep_up)


def _key(source: Source) -> Source:
    """What makes a source the same one as before: everything but its base model."""
    return msgspec.structs.replace(source, base_model=None)


def _learn(stream: _Stream, source: Source) -> bool:
    """Tell an open stream its base model; False if it has been another one so far."""
    if source.base_model is None or source.base_model == stream.feed.base_model:
        return True
    if stream.feed.base_model is not None:
        return False
    stream.feed.base_model = source.base_model
    return True


def _check_port(endpoint: str) -> None:
    """Raise ValueError for a TCP port that libzmq accepts and then never reaches."""
    scheme, _, address = endpoint.partition("://")
    port = address.rpartition(":")[2]
    if scheme == "tcp" and not (port.isascii() and port.isdigit() and 0 < int(port) <= 65535):
        raise ValueError(f"not a TCP port: {port!r} in {endpoint!r}")
