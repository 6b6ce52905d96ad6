"""Frames: the messages of an event stream and of a replay, as ZMQ hands them over.

A live message is topic, number (8 bytes, big-endian), payload. A replay is asked for with an empty
frame and the first number wanted, and answered with one message per batch and an end marker:

    [empty, topic, number, payload]*  [empty, empty, ff x 8, empty]    vLLM from 0.26, SGLang 0.5.23
    [empty,        number, payload]*  [empty,        ff x 8, empty]    before

so an answer is read from its end. The number of an end marker means nothing, its payload is empty.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Callable, Sequence

import msgspec
import xxhash

from indexer.events import Batch, Reason

FRAMES = 3
"""Of a live message."""
NUMBER_BYTES = 8
MAX_PAYLOAD_BYTES = 16 << 20
"""A step of 64k prompt tokens takes less than 1 MiB."""


class Message(msgspec.Struct, frozen=True, gc=False):
    """One batch as it was sent.

    Attributes:
        seq: Its number.
        topic: None in a replay of the older form: that of the other messages.
        wall_s: When it arrived, in seconds since the epoch; None for one that was replayed.
        batch: The payload, where it was decoded before.
    """

    seq: int
    payload: bytes
    topic: bytes | None = None
    wall_s: float | None = None
    batch: Batch | None = None


_number = struct.Struct(">Q").unpack


class End(msgspec.Struct, frozen=True):
    """The end of an answer to a request for a replay."""


class Queue:
    """Messages that wait, in order; at most so many, and so many bytes.

    Attributes:
        messages: What waits, to be read only.
    """

    def __init__(self, max_messages: int, max_bytes: int) -> None:
        self._max_messages = max_messages
        self._max_bytes = max_bytes
        self.messages: deque[Message] = deque()
        self._bytes = 0

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def last_seq(self) -> int | None:
        return self.messages[-1].seq if self.messages else None

    def first_from(self, seq: int) -> int | None:
        """The first number that waits and is at least this one."""
        return next((message.seq for message in self.messages if message.seq >= seq), None)

    def push(self, message: Message) -> int:
        """Add one; returns how many of the oldest gave way."""
        self.messages.append(message)
        self._bytes += len(message.payload)
        pushed_out = 0
        while len(self.messages) > self._max_messages or self._bytes > self._max_bytes:
            self.pop()
            pushed_out += 1
        return pushed_out

    def push_back(self, message: Message) -> None:
        """Return the one that was popped last."""
        self.messages.appendleft(message)
        self._bytes += len(message.payload)

    def pop(self) -> Message:
        """The oldest."""
        message = self.messages.popleft()
        self._bytes -= len(message.payload)
        return message

    def clear(self) -> int:
        """Forget all; returns how many there were."""
        count = len(self.messages)
        self.messages.clear()
        self._bytes = 0
        return count


def fault_of(frames: Sequence[bytes]) -> Reason | None:
    """Why frames are no live message; None if they are one."""
    if len(frames) != FRAMES:
        return Reason.BAD_FRAMES
    if len(frames[1]) != NUMBER_BYTES:
        return Reason.BAD_SEQUENCE
    if len(frames[2]) > MAX_PAYLOAD_BYTES:
        return Reason.TOO_LARGE
    return None


def seq_of(number: bytes) -> int:
    """The number in a frame of `NUMBER_BYTES`."""
    seq: int
    (seq,) = _number(number)
    return seq


def request(start: int) -> list[bytes]:
    """Ask for everything from this number on. The empty frame is what a REQ socket would add."""
    return [b"", start.to_bytes(NUMBER_BYTES, "big")]


def answer(frames: Sequence[bytes]) -> Message | End | Reason:
    """Read one message of an answer, or say why it is none."""
    body = frames[1:] if frames and not frames[0] else frames
    if len(body) not in (2, 3):
        return Reason.BAD_FRAMES
    number, payload = body[-2:]
    if len(number) != NUMBER_BYTES:
        return Reason.BAD_SEQUENCE
    if not payload:
        return End()
    if len(payload) > MAX_PAYLOAD_BYTES:
        return Reason.TOO_LARGE
    topic = body[0] if len(body) == 3 else None
    return Message(int.from_bytes(number, "big"), payload, topic)


def address_and_model(topic: bytes) -> tuple[str, str] | None:
    """The parts of a topic of the form `kv@ADDRESS@MODEL`; None for any other."""
    parts = topic.decode("utf-8", "replace").split("@")
    if len(parts) != 3 or parts[0] != "kv":
        return None
    return parts[1], parts[2]


def model_of(topic: bytes) -> str | None:
    """The model that a topic names; only one form carries one."""
    parts = address_and_model(topic)
    return parts[1] or None if parts else None


digest: Callable[[bytes], int] = xxhash.xxh3_64_intdigest
"""Tells whether a payload is the one seen before; it holds a time, so no two are equal."""
