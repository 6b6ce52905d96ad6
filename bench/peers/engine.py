"""An engine's event stream for a comparison: what it stores and removes, and its publisher. IO."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
import zmq

BLOCK_SIZE = 16
SEQUENCE_EVENTS = 8
"""Events until a new sequence starts at the root."""
LAST = (1,) * BLOCK_SIZE
"""Tokens of the block that is stored last and removed last. No other block holds them."""
SUBSCRIBED_MS = 10_000

_SUBSCRIBE = b"\x01"


class Traffic(msgspec.Struct, frozen=True):
    """Encoded messages of one event each.

    Attributes:
        blocks: How many are stored, and then removed.
        stores: The first part.
        removals: The second one: the same blocks in the same portions, the ends of sequences first.
    """

    blocks: int
    stores: Sequence[bytes]
    removals: Sequence[bytes]


def traffic(blocks_per_event: int, events: int) -> Traffic:
    """Sequences of random blocks, and `LAST` behind them."""
    rng = random.Random(7)
    stores: list[bytes] = []
    removals: list[bytes] = []
    previous: int | None = None
    for number in range(events):
        names = [rng.getrandbits(64) for _ in range(blocks_per_event)]
        tokens = [rng.randrange(2, 150_000) for _ in range(BLOCK_SIZE * blocks_per_event)]
        parent = previous if number % SEQUENCE_EVENTS else None
        stores.append(_message(_stored(names, parent, tokens)))
        removals.append(_message(_removed(names[::-1])))
        previous = names[-1]
    last = rng.getrandbits(64)
    return Traffic(
        blocks=blocks_per_event * events + 1,
        stores=[*stores, _message(_stored([last], None, LAST))],
        removals=[*removals[::-1], _message(_removed([last]))],
    )


def sequence(tokens: Sequence[int]) -> list[bytes]:
    """One sequence of these tokens, stored a few blocks at a time."""
    messages: list[bytes] = []
    step, parent = SEQUENCE_EVENTS * BLOCK_SIZE, None
    for at in range(0, len(tokens), step):
        part = tokens[at : at + step]
        names = [at + number + 1 for number in range(0, len(part), BLOCK_SIZE)]
        messages.append(_message(_stored(names, parent, part)))
        parent = names[-1]
    return messages


class Publisher:
    """An engine's socket: everything is sent at once and waits for whoever is slower."""

    def __init__(self, socket: zmq.Socket[bytes]) -> None:
        self._socket = socket
        self._seq = 0
        self.endpoint = socket.getsockopt_string(zmq.LAST_ENDPOINT)

    def await_subscriber(self) -> None:
        """Raises TimeoutError. What is sent before there is one would be lost."""
        if not self._socket.poll(SUBSCRIBED_MS) or not self._socket.recv().startswith(_SUBSCRIBE):
            raise TimeoutError("nobody subscribed to the engine's events")

    def publish(self, payloads: Sequence[bytes]) -> None:
        for payload in payloads:
            seq = self._seq.to_bytes(8, "big")
            self._socket.send_multipart([b"kv@127.0.0.1:8000@bench", seq, payload])
            self._seq += 1


@contextmanager
def publisher() -> Iterator[Publisher]:
    """On a free port, for as long as it is entered."""
    with zmq.Context() as context, context.socket(zmq.XPUB) as socket:
        socket.setsockopt(zmq.SNDHWM, 0)
        socket.setsockopt(zmq.LINGER, 0)
        socket.bind("tcp://127.0.0.1:*")
        yield Publisher(socket)


def _message(event: dict[str, object]) -> bytes:
    return msgspec.msgpack.encode([0.0, [event], 0])


def _stored(names: Sequence[int], parent: int | None, tokens: Sequence[int]) -> dict[str, object]:
    """As vLLM 0.32 spells it."""
    return {
        "type": "BlockStored",
        "block_hashes": names,
        "parent_block_hash": parent,
        "token_ids": tokens,
        "block_size": BLOCK_SIZE,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "extra_keys": [None] * len(names),
        "group_idx": 0,
        "kv_cache_spec_kind": "full_attention",
    }


def _removed(names: Sequence[int]) -> dict[str, object]:
    return {"type": "BlockRemoved", "block_hashes": names, "medium": "GPU", "group_idx": 0}
