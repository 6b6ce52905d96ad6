"""Threads for work of one kind, and a queue before them that has an end. IO."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from math import inf
from typing import TypeVar

from tokenizer_sidecar.errors import without_panics

Result = TypeVar("Result")


class Busy(Exception):
    """So many wait already that one more would only wait for nothing."""


class Expired(Exception):
    """The time was over before the work was begun."""


class Lane:
    """Runs calls in threads, in the order they come.

    A call waits here, on the event loop, and not in the executor: so it can be counted, refused,
    cancelled, and dropped when its time is over.

    Args:
        max_waiting: Calls beyond those that run; further ones are refused.
    """

    def __init__(self, name: str, threads: int, max_waiting: int) -> None:
        self._executor = ThreadPoolExecutor(threads, thread_name_prefix=name)
        self._free = asyncio.Semaphore(threads)
        self._max_waiting = max_waiting
        self.waiting = 0
        """Calls that are not begun."""

    async def run(self, work: Callable[[], Result], expires_at: float = inf) -> Result:
        """The call's result. `expires_at` is in the loop's time. Raises Busy, Expired."""
        if self._free.locked() and self.waiting >= self._max_waiting:
            raise Busy
        self.waiting += 1
        try:
            await self._free.acquire()
        finally:
            self.waiting -= 1
        loop = asyncio.get_running_loop()
        if loop.time() >= expires_at:
            self._free.release()
            raise Expired
        running = loop.run_in_executor(self._executor, partial(without_panics, work))
        # The thread of a cancelled call may be busy for longer; the next then waits for it there.
        running.add_done_callback(lambda _: self._free.release())
        return await running

    def close(self) -> None:
        """Give up the threads. What runs finishes by itself."""
        self._executor.shutdown(wait=False, cancel_futures=True)
