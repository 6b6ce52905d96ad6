"""Turns: reads many ZMQ sockets on one event loop, a little from each, and leaves it room. IO."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import zmq

TURN_S = 0.002
"""Time the loop gives to events before it looks at everything else again."""
BURST_READS = 32
"""Times that one reader is read before the next one has its turn."""


class Reader(Protocol):
    """Whoever has something to read when one of its sockets changes."""

    @property
    def sockets(self) -> Sequence[zmq.Socket[bytes]]:
        """The same ones from `add` to `remove`."""
        ...

    def read(self) -> bool:
        """Take in a message, or a few small ones; False if there are no more.

        A socket's descriptor tells only that something changed, so this is called until then.
        """
        ...

    def fail(self) -> None:
        """Reading raised an error, which is being handled: count and log it."""
        ...


class Turns:
    def __init__(self) -> None:
        self._members: set[Reader] = set()
        self._ready: deque[Reader] = deque()
        self._queued: set[Reader] = set()
        self._turn: asyncio.Handle | None = None

    def add(self, reader: Reader) -> None:
        """Read from it until it is removed; call it on the running loop."""
        loop = asyncio.get_running_loop()
        self._members.add(reader)
        for socket in reader.sockets:
            loop.add_reader(socket.FD, self.wake, reader)
        self.wake(reader)  # what came before the loop watches makes no edge

    def remove(self, reader: Reader) -> None:
        """To be called before its sockets are closed."""
        loop = asyncio.get_running_loop()
        self._members.discard(reader)
        for socket in reader.sockets:
            loop.remove_reader(socket.FD)

    def wake(self, reader: Reader) -> None:
        """There may be something to read."""
        if reader not in self._queued:
            self._queued.add(reader)
            self._ready.append(reader)
        if self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def close(self) -> None:
        """Nothing is read any more."""
        if self._turn is not None:
            self._turn.cancel()
            self._turn = None
        self._ready.clear()
        self._queued.clear()

    def _take_turn(self) -> None:
        self._turn = None
        deadline = time.monotonic() + TURN_S
        while self._ready and time.monotonic() < deadline:
            reader = self._ready.popleft()
            self._queued.discard(reader)
            if self._may_have_more(reader, deadline):
                self.wake(reader)
        if self._ready and self._turn is None:
            self._turn = asyncio.get_running_loop().call_soon(self._take_turn)

    def _may_have_more(self, reader: Reader, deadline: float) -> bool:
        """Read from one until it has nothing, its burst is over, or the turn is."""
        for _ in range(BURST_READS):
            if reader not in self._members:
                return False
            try:
                if not reader.read():
                    return False
            except Exception:
                # The edge: what one engine sends must not end the reading of the others.
                reader.fail()
            if time.monotonic() >= deadline:
                return True
        return True
