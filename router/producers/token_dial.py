"""How a tokenizer's gRPC service is dialled, how soon again, and which socket lies there. IO."""

from __future__ import annotations

import os
from pathlib import Path

import grpc

Identity = tuple[int, int]
"""Device and inode."""

FIRST_PAUSE_S = 0.25
"""Before a service that was lost is dialled again."""

LONGEST_PAUSE_S = 5.0

LIVED_S = 2.0
"""A connection that was lost before that has done no good; the next one is put off for longer."""


class Pauses:
    """Pauses between two connections."""

    def __init__(self) -> None:
        self._next_s = FIRST_PAUSE_S

    def after(self, lived_s: float) -> float:
        """Seconds to wait, now that a connection is lost that was there for so long."""
        pause_s = FIRST_PAUSE_S if lived_s >= LIVED_S else self._next_s
        self._next_s = min(2 * pause_s, LONGEST_PAUSE_S)
        return pause_s


class SocketReplaced(Exception):
    """Another socket lies at the path that was dialled."""


def channel(target: str, max_message_bytes: int) -> grpc.aio.Channel:
    """A channel that dials again soon, and shares its connection with no other."""
    return grpc.aio.insecure_channel(
        target,
        options=[
            ("grpc.max_send_message_length", max_message_bytes),
            ("grpc.max_receive_message_length", max_message_bytes),
            ("grpc.initial_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 500),
            # For all its name, how long one attempt may take; a process that hangs takes forever,
            # and another may be put in its place meanwhile.
            ("grpc.min_reconnect_backoff_ms", 2000),
            # Else a new channel is handed the connection of an old one, to a socket that is gone.
            ("grpc.use_local_subchannel_pool", 1),
        ],
    )


def identity(path: Path) -> Identity | None:
    """Which socket lies there; None where there is none."""
    try:
        found = os.stat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino


def is_replaced(path: Path, dialled: Identity | None) -> bool:
    """Whether a socket lies there that is not the one dialled.

    A process that was put aside, or hangs, may still hold the old one.
    """
    found = identity(path)
    return found is not None and dialled is not None and found != dialled
