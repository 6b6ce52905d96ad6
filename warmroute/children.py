"""Child processes: started together, watched together, none left behind. IO."""

from __future__ import annotations

import asyncio
import ctypes
import signal
import sys
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence

from warmroute.errors import StartError

STOP_S = 15.0
"""How long a child may take to stop before it is killed."""

KEPT_LINES = 20

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None, use_errno=True)


def _die_with_parent() -> None:
    """In the child: ask the kernel for SIGTERM should the parent vanish without a word."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


class Child:
    """One process. Its standard error is kept, its standard output is handed on line by line."""

    def __init__(self, name: str, command: Sequence[str]) -> None:
        self.name = name
        self._command = command
        self._process: asyncio.subprocess.Process | None = None
        self._errors: deque[str] = deque(maxlen=KEPT_LINES)

    async def start(self, group: asyncio.TaskGroup, on_line: Callable[[str], None]) -> None:
        """Start it; `on_line` gets each line of its standard output."""
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            # Ctrl-C reaches the whole terminal group; only the parent decides the order of the end.
            start_new_session=True,
            preexec_fn=_die_with_parent,
        )
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        group.create_task(_each_line(self._process.stdout, on_line))
        group.create_task(_each_line(self._process.stderr, self._errors.append))

    async def ended(self) -> int:
        """Wait until it ends; its exit code."""
        assert self._process is not None
        return await self._process.wait()

    def failure(self, code: int) -> StartError:
        """Why it ended, as one line."""
        last = next((line for line in reversed(self._errors) if line.strip()), "")
        said = f": {last.strip()}" if last else ""
        how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
        return StartError(f"{self.name} ended {how}{said}")

    async def stop(self) -> None:
        """Ask it to stop, then make it."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(STOP_S):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()


async def _each_line(stream: asyncio.StreamReader, on_line: Callable[[str], None]) -> None:
    async for line in _lines(stream):
        on_line(line)


async def _lines(stream: asyncio.StreamReader) -> AsyncIterator[str]:
    while True:
        try:
            line = await stream.readline()
        except ValueError:
            # Longer than the reader's buffer, which has been dropped: the next line is whole again.
            continue
        if not line:
            return
        yield line.decode(errors="replace").rstrip("\n")


def python(*arguments: str) -> list[str]:
    """A command of this package, run by this interpreter."""
    # -P: what lies in the current directory must not shadow a package.
    return [sys.executable, "-P", "-m", "warmroute", *arguments]
