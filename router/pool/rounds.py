"""Visits every endpoint of a pool again and again, each in its own turn. IO."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable

from router.pool.endpoint import Endpoint
from router.pool.pool import Pool

FIRST_SPACING_S = 0.005
"""Between the first visits of two endpoints, so that a large pool is not visited in one burst."""


class Rounds:
    """Each endpoint has a task of its own, so its visits never overlap, and a slow endpoint delays
    no other. It follows the pool as a listener while `run` runs.

    Attributes:
        first_pass: Set once every endpoint that was there at the start has been visited.
    """

    def __init__(
        self, pool: Pool, visit: Callable[[str], Awaitable[None]], interval_s: float
    ) -> None:
        """`visit` is given an address; it raises nothing."""
        self.first_pass = asyncio.Event()
        self._pool = pool
        self._visit = visit
        self._interval_s = interval_s
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._untried: set[str] = set()
        self._count = 0
        self._group: asyncio.TaskGroup

    async def run(self) -> None:
        """Visit until cancelled."""
        async with asyncio.TaskGroup() as self._group:
            self._untried = {endpoint.address for endpoint in self._pool.snapshot()}
            self._pool.listen(self)
            if not self._untried:
                self.first_pass.set()
            try:
                await asyncio.Event().wait()
            finally:
                self._pool.unlisten(self)
                self._tasks.clear()

    def added(self, endpoint: Endpoint) -> None:
        """Begin to visit an endpoint."""
        follow = self._follow(endpoint.address, phase(self._count))
        self._count += 1
        self._tasks[endpoint.address] = self._group.create_task(follow)

    def removed(self, endpoint: Endpoint) -> None:
        """Visit it no more."""
        self._tasks.pop(endpoint.address).cancel()
        self._note_tried(endpoint.address)

    def changed(self, endpoint: Endpoint) -> None:
        """What changed is read at each visit; there is nothing to do."""

    def restarted(self, endpoint: Endpoint) -> None:
        """It has the same turns."""

    def died(self, endpoint: Endpoint) -> None:
        """It is visited on, to see when it is back."""

    def revived(self, endpoint: Endpoint) -> None:
        """It was visited all the time."""

    async def _follow(self, address: str, share: float) -> None:
        """Visit one endpoint at its share of the interval, for ever."""
        loop = asyncio.get_running_loop()
        began_s, endpoints = loop.time(), len(self._pool.snapshot())
        grid_s = began_s + share * self._interval_s
        due_s = began_s + share * min(self._interval_s, FIRST_SPACING_S * endpoints)
        while True:
            await asyncio.sleep(due_s - loop.time())
            await self._visit(address)
            self._note_tried(address)
            due_s = next_due(grid_s, self._interval_s, last_s=due_s, now_s=loop.time())

    def _note_tried(self, address: str) -> None:
        self._untried.discard(address)
        if not self._untried:
            self.first_pass.set()


def phase(nth: int) -> float:
    """The share of an interval at which the nth endpoint has its turn.

    Multiples of the golden ratio, modulo one, stay evenly spread however many there are.
    """
    return nth * (math.sqrt(5) - 1) / 2 % 1


def next_due(grid_s: float, interval_s: float, *, last_s: float, now_s: float) -> float:
    """When an endpoint's next turn is: on its grid, not in the past.

    Rounds that were missed are left out. Half an interval lies between two turns at least, so a
    timer that fires early does not get the same turn twice.
    """
    after_s = max(now_s, last_s + interval_s / 2)
    return grid_s + math.ceil((after_s - grid_s) / interval_s) * interval_s
