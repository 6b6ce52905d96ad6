"""Addresses and ports for tests that run at the same time on one machine. IO."""

from __future__ import annotations

import os
import random
import socket


def free_port(host: str = "127.0.0.1") -> int:
    """A port nobody listens on now."""
    with socket.socket() as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
        return port


def loopback_block() -> str:
    """The first address of a small run of loopback addresses that no other test uses.

    Distinct loopback addresses stand for distinct hosts, so fixed ports never collide.
    """
    rng = random.Random(f"{os.getpid()}-{os.urandom(8).hex()}")
    return f"127.{rng.randint(1, 254)}.{rng.randint(0, 255)}.{rng.randrange(1, 240, 8)}"
