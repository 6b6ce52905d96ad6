"""Another machine, as far as the network tells: a namespace at the other end of a cable. IO."""

from __future__ import annotations

import random
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import NamedTuple

import pytest

TIMEOUT_S = 20.0


class Neighbour(NamedTuple):
    """
    Attributes:
        here: Our address, which it reaches us by.
        there: Its address.
        namespace: Name of the namespace its processes run in.
    """

    here: str
    there: str
    namespace: str

    def runs(self, command: Sequence[str]) -> list[str]:
        """The command that runs another one there."""
        return ["ip", "netns", "exec", self.namespace, *command]


@contextmanager
def neighbour() -> Iterator[Neighbour]:
    """Skips the test where the machine lets nobody make one."""
    if shutil.which("ip") is None:
        pytest.skip("there is no `ip` to make a network namespace with")
    number = random.SystemRandom().randrange(2**14)
    # Of the addresses that are set apart for tests of networks (RFC 2544), four.
    net, first = f"198.18.{number >> 6}", number % 64 * 4
    made = Neighbour(f"{net}.{first + 1}", f"{net}.{first + 2}", f"warmroute-{number}")
    cable = f"wr{number}"
    added = _ip("netns", "add", made.namespace)
    if added.returncode:
        pytest.skip(f"a network namespace needs root: {added.stderr.strip()}")
    try:
        laid = _ip("link", "add", cable, "type", "veth", "peer", "eth0", "netns", made.namespace)
        if laid.returncode:
            pytest.skip(f"there are no cables between network namespaces: {laid.stderr.strip()}")
        for command in (
            ("addr", "add", f"{made.here}/30", "dev", cable),
            ("link", "set", cable, "up"),
            ("-n", made.namespace, "addr", "add", f"{made.there}/30", "dev", "eth0"),
            ("-n", made.namespace, "link", "set", "eth0", "up"),
        ):
            _ip(*command).check_returncode()
        yield made
    finally:
        # Its end of the cable goes with it, and so does ours, but later.
        _ip("link", "delete", cable)
        _ip("netns", "delete", made.namespace).check_returncode()


def _ip(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = ["ip", *arguments]
    return subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
