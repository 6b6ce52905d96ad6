"""Addresses and ports for tests that run at the same time on one machine. IO."""

from __future__ import annotations

import fcntl
import functools
import itertools
import os
import random
import socket
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import IO

# Below the ports that systems hand to outgoing connections (32768 and up on Linux, 49152 and up
# elsewhere), so that none of those can take a port between the moment it is found free and its use.
FIRST_PORT = 14_000
LAST_PORT = 32_600
SHARE = 200


def free_port(host: str = "127.0.0.1", run: int = 1) -> int:
    """The first of `run` ports in a row that nobody listens on and no other test is given.

    Raises:
        OSError: there is none in this process's share.
    """
    _, ports = _share()
    for _ in range(SHARE):
        first = next(ports)
        in_share = first % SHARE + run <= SHARE
        if in_share and all(_is_free(host, first + each) for each in range(run)):
            for _ in range(run - 1):
                next(ports)
            return first
    raise OSError(f"no {run} free ports in a row in the share of this process")


def loopback_block() -> str:
    """The first address of a small run of loopback addresses that no other test uses.

    Distinct loopback addresses stand for distinct hosts, so fixed ports never collide.
    """
    rng = random.Random(f"{os.getpid()}-{os.urandom(8).hex()}")
    return f"127.{rng.randint(1, 254)}.{rng.randint(0, 255)}.{rng.randrange(1, 240, 8)}"


@functools.cache
def _share() -> tuple[IO[str], Iterator[int]]:
    """Ports that no other process of tests has while this one lives, round and round.

    Finding a port free says nothing of a neighbour that found it free as well and has not bound it
    yet; a lock that ends with its process keeps neighbours apart.
    """
    folder = Path(tempfile.gettempdir()) / f"warmroute-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    firsts = list(range(FIRST_PORT, LAST_PORT, SHARE))
    for first in random.sample(firsts, len(firsts)):
        lock = (folder / str(first)).open("w")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            continue
        return lock, itertools.cycle(range(first, first + SHARE))
    raise OSError("other tests hold every share of ports")


def _is_free(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
        try:
            probe.bind((host, port))
        except OSError:
            return False
        return True
