"""Runs one service until a signal; what keeps it from starting becomes one line. IO."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable

import structlog
import uvloop

from warmroute.errors import StartError

log = structlog.get_logger()

Service = Callable[[Callable[[], None], asyncio.Event], Awaitable[None]]
"""Takes what to call once it serves and the event that ends it."""


def run(service: Service, *refusals: type[Exception]) -> int:
    """Run to the end. Errors of the types in `refusals` (and OSError) become a StartError."""
    kinds: tuple[type[Exception], ...] = (OSError, *refusals)
    try:
        uvloop.run(_until_signal(service))
    except* kinds as group:
        raise StartError(str(_first(group))) from group
    return 0


async def _until_signal(service: Service) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)
    await service(lambda: log.info("service.ready"), stop)


def _first(group: BaseExceptionGroup[Exception]) -> BaseException:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
