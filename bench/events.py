"""Says in the engines' place which blocks they hold, as vLLM does it. IO."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import msgspec
import zmq

BLOCK_SIZE = 16
SUBSCRIBED_MS = 10_000

_SUBSCRIBE = b"\x01"


class Announcer:
    """One publisher per engine. Its subscribers are awaited: PUB drops what nobody listens to."""

    def __init__(self, context: zmq.Context[zmq.Socket[bytes]], hosts: Sequence[str]) -> None:
        self.endpoints: list[str] = []
        self._sockets: list[zmq.Socket[bytes]] = []
        for host in hosts:
            socket = context.socket(zmq.XPUB)
            self._sockets.append(socket)
            self.endpoints.append(f"tcp://{host}:{socket.bind_to_random_port(f'tcp://{host}')}")

    def stored(self, token_ids: Sequence[int]) -> None:
        """Every engine has just computed these tokens. Raises TimeoutError without a listener."""
        payload = _payload(token_ids)
        for socket in self._sockets:
            self._await_subscriber(socket)
            socket.send_multipart([b"kv-events", struct.pack(">Q", 0), payload])

    def close(self) -> None:
        for socket in self._sockets:
            socket.close(linger=0)

    def _await_subscriber(self, socket: zmq.Socket[bytes]) -> None:
        if not socket.poll(SUBSCRIBED_MS):
            raise TimeoutError("nobody subscribed to an engine's events")
        if not socket.recv().startswith(_SUBSCRIBE):
            raise TimeoutError("the router left an engine's events")


@contextmanager
def announcer(hosts: Sequence[str]) -> Iterator[Announcer]:
    """Publishers on free ports, for as long as it is entered."""
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    announcing = Announcer(context, hosts)
    try:
        yield announcing
    finally:
        announcing.close()
        context.term()


def _payload(token_ids: Sequence[int]) -> bytes:
    blocks = len(token_ids) // BLOCK_SIZE
    event = {
        "type": "BlockStored",
        # Engine hashes are names and nothing else, so numbers do.
        "block_hashes": list(range(1, blocks + 1)),
        "parent_block_hash": None,
        "token_ids": list(token_ids[: blocks * BLOCK_SIZE]),
        "block_size": BLOCK_SIZE,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        "extra_keys": [None] * blocks,
    }
    return msgspec.msgpack.encode([0.0, [event], 0])
