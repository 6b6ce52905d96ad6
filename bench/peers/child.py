"""A side of a comparison as its parent sees it: a process that gets orders. IO."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import NoneType
from typing import TypeVar

import msgspec

ROOT = Path(__file__).parents[2]
STOP_S = 10.0

_T = TypeVar("_T")


class Command(msgspec.Struct, frozen=True):
    """How a side is started.

    Attributes:
        python: Its interpreter.
        module: Run in the repository's root.
    """

    python: Path
    module: str


class SideFailed(Exception):
    """A side ended before it answered; why is on its standard error."""


class Child:
    """A side that runs."""

    def __init__(self, command: Command, process: subprocess.Popen[bytes]) -> None:
        self._command = command
        self._process = process

    def tell(self, order: str, **arguments: object) -> None:
        """Send an order. Raises SideFailed."""
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(msgspec.json.encode({"order": order, **arguments}) + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError as error:
            raise self._failed() from error

    def hear(self, answer: type[_T]) -> _T:
        """Wait for the answer to the last order. Raises SideFailed."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise self._failed()
        return msgspec.json.decode(line, type=answer)

    def ask(self, answer: type[_T], order: str, **arguments: object) -> _T:
        """Send an order and wait for the answer. Raises SideFailed."""
        self.tell(order, **arguments)
        return self.hear(answer)

    def do(self, order: str, **arguments: object) -> None:
        """Send an order and wait until it is done. Raises SideFailed."""
        self.ask(NoneType, order, **arguments)

    def _failed(self) -> SideFailed:
        code = self._process.wait(STOP_S)
        return SideFailed(f"{self._command.module} ended with exit code {code}")


@contextmanager
def started(command: Command) -> Iterator[Child]:
    """A side that runs as long as this is entered."""
    process = subprocess.Popen(
        [command.python, "-m", command.module],
        cwd=ROOT,
        # Dynamo logs each subscription otherwise.
        env={**os.environ, "DYN_LOG": "error"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        yield Child(command, process)
    finally:
        process.kill()
        # Reaps it and closes the pipes, whatever it was doing.
        process.communicate(timeout=STOP_S)
