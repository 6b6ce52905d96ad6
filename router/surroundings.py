"""Whom the director talks to, and how it is told not to hold others up."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Protocol

from router.errors import RouterError
from router.pool.endpoint import Endpoint
from router.request.types import Request
from router.telemetry.decisions import Record

Aside = Callable[[Callable[[], Request]], Awaitable[Request]]
"""Runs a function without holding up anybody else."""


async def at_once(read: Callable[[], Request]) -> Request:
    """In the way of everybody else."""
    return read()


class Candidates(Protocol):
    """Where endpoints are read."""

    def candidates(self) -> Sequence[Endpoint]:
        """The endpoints requests may go to now."""
        ...

    def serving(self, model: str) -> Sequence[Endpoint]:
        """Those of them that may be asked for a model."""
        ...


class Observer(Protocol):
    """Is told of each request, without awaiting."""

    def routed(self, record: Record) -> None:
        """It has its endpoint."""
        ...

    def refused(self, record: Record, error: RouterError) -> None:
        """It was refused."""
        ...

    def gap(self, record: Record, seconds: float) -> None:
        """So long after the last one another piece of its streamed answer came."""
        ...

    def ended(self, record: Record) -> None:
        """Its exchange is over."""
        ...
