"""How a tokenizer's gRPC service is dialled, and which socket lies at its path. IO."""

from __future__ import annotations

import os
from pathlib import Path

import grpc

Identity = tuple[int, int]
"""Device and inode."""


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
            ("grpc.min_reconnect_backoff_ms", 100),
            ("grpc.max_reconnect_backoff_ms", 500),
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
