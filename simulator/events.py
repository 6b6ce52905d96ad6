"""KV events over ZMQ as vLLM sends them: a PUB socket and a ROUTER for replays. IO.

A message is three frames: topic, sequence number from 0, payload. Whoever subscribes late or loses
messages asks the ROUTER with `[empty, first number]` and gets what is still buffered from there on:

    [empty, topic, number, payload]*  [empty, empty, 8x ff, empty]     vLLM from 0.26 on
    [empty,        number, payload]*  [empty,        8x ff, empty]     before

Neither socket limits its queue, so sending never waits for a reader and drops nothing.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Sequence

import msgspec
import zmq
import zmq.asyncio

from simulator.wire import (
    END_SEQ,
    Event,
    EventLayout,
    HashForm,
    decode_seq,
    encode_batch,
    encode_seq,
)

BUFFER_STEPS = 10_000
"""How many messages vLLM keeps for replays."""

_YIELD_EVERY = 256
"""Replies to one replay between two chances for the engine to run."""

_LINGER_MS = 100
"""How long closing may wait for the last messages to reach their readers."""

log = logging.getLogger(__name__)


class Form(msgspec.Struct, frozen=True, kw_only=True):
    """How messages look, and how late they leave.

    Attributes:
        replay_topic_frame: Whether replies to replays carry the topic.
        delay_s: Seconds between a step's end and its message.
    """

    topic: str
    layout: EventLayout = "map"
    hashes: HashForm = "int"
    replay_topic_frame: bool = True
    delay_s: float = 0.0


class Publisher:
    """The events of one rank.

    Attributes:
        port: What the PUB socket is bound to.
        replay_port: What the ROUTER is bound to; None without one.
    """

    def __init__(
        self, host: str, port: int, replay_port: int | None, form: Form, rank: int = 0
    ) -> None:
        """Binds both sockets, 0 means a free port. Raises OSError. Needs a running loop."""
        self._form = form
        self._topic = form.topic.encode()
        self._rank = rank
        self._next_seq = 0
        self._buffer: deque[tuple[bytes, bytes]] = deque(maxlen=BUFFER_STEPS)
        self._held_back: deque[tuple[float, bytes]] = deque()
        self._timer: asyncio.TimerHandle | None = None
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._pub = self._context.socket(zmq.PUB)
        self._router = zmq.asyncio.Socket(self._context, zmq.ROUTER)
        try:
            self.port = _bind(self._pub, host, port)
            self.replay_port = (
                None if replay_port is None else _bind(self._router, host, replay_port)
            )
        except OSError:
            self.close()
            raise

    def publish(self, events: Sequence[Event]) -> None:
        """Send one message with a step's events; none without events."""
        if not events:
            return
        form = self._form
        payload = encode_batch(time.time(), events, self._rank, form.layout, form.hashes)
        if form.delay_s == 0:
            self._send(payload)
            return
        self._held_back.append((asyncio.get_running_loop().time() + form.delay_s, payload))
        if self._timer is None:
            self._arm()

    async def answer_replays(self) -> None:
        """Serve the ROUTER until cancelled. Requests that are not well formed get no answer."""
        while True:
            frames = await self._router.recv_multipart()
            if len(frames) != 3 or frames[1]:
                log.warning("events.replay_malformed", extra={"frames": len(frames)})
                continue
            client, _, start = frames
            try:
                await self._replay(client, decode_seq(start))
            except ValueError:
                log.warning("events.replay_malformed", extra={"start_bytes": len(start)})

    def close(self) -> None:
        """Drop what is held back and unbind."""
        if self._timer is not None:
            self._timer.cancel()
        for socket in (self._pub, self._router):
            socket.close(linger=_LINGER_MS)
        self._context.term()

    def _arm(self) -> None:
        due_s, _ = self._held_back[0]
        self._timer = asyncio.get_running_loop().call_at(due_s, self._send_due)

    def _send_due(self) -> None:
        """Send the oldest message that is held back, and wait for the next one."""
        self._timer = None
        _, payload = self._held_back.popleft()
        self._send(payload)
        if self._held_back:
            self._arm()

    def _send(self, payload: bytes) -> None:
        seq = encode_seq(self._next_seq)
        self._next_seq += 1
        self._pub.send_multipart((self._topic, seq, payload), zmq.DONTWAIT)
        self._buffer.append((seq, payload))

    async def _replay(self, client: bytes, start: int) -> None:
        topic = [self._topic] if self._form.replay_topic_frame else []
        messages = [entry for entry in self._buffer if decode_seq(entry[0]) >= start]
        for count, (seq, payload) in enumerate(messages, 1):
            await self._router.send_multipart([client, b"", *topic, seq, payload])
            if count % _YIELD_EVERY == 0:
                await asyncio.sleep(0)
        end = [b""] if self._form.replay_topic_frame else []
        await self._router.send_multipart([client, b"", *end, END_SEQ, b""])


def _bind(socket: zmq.Socket[bytes] | zmq.asyncio.Socket, host: str, port: int) -> int:
    """Bind to a port without a limit on the queue. Raises OSError with a line that says where."""
    address = endpoint(host, port)
    socket.setsockopt(zmq.SNDHWM, 0)
    socket.setsockopt(zmq.IPV6, ":" in host)
    try:
        socket.bind(address)
    except zmq.ZMQError as error:
        raise OSError(error.errno, f"cannot bind {address}: {error.strerror}") from error
    return int(socket.get_string(zmq.LAST_ENDPOINT).rpartition(":")[2])


def endpoint(host: str, port: int) -> str:
    """A TCP address in ZMQ's form; all interfaces are `*`, as in vLLM's own configuration."""
    if host in ("", "0.0.0.0", "::"):
        return f"tcp://*:{port}"
    return f"tcp://[{host}]:{port}" if ":" in host else f"tcp://{host}:{port}"
