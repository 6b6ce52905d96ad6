"""Runs one service until a signal; what keeps it from starting becomes one line. IO."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine

import structlog
import uvloop

from warmroute.errors import StartError

log = structlog.get_logger()

Service = Callable[[Callable[[], None], asyncio.Event], Awaitable[None]]
"""Takes what to call once it serves and the event that ends it."""


def run(service: Service, *refusals: type[Exception]) -> int:
    """Run to the end. Errors of the types in `refusals` (and OSError) become a StartError."""
    complete(uvloop.run, _until_signal(service), OSError, *refusals)
    return 0


def complete(
    runner: Callable[[Coroutine[None, None, None]], None],
    main: Coroutine[None, None, None],
    *refusals: type[Exception],
) -> None:
    """Run `main`; an error of the types in `refusals`, also inside groups, is a StartError."""
    try:
        runner(main)
    except Exception as error:
        cause = _leaf(error)
        if isinstance(cause, (StartError, *refusals)):
            raise StartError(str(cause)) from error
        raise


async def _until_signal(service: Service) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    await service(lambda: log.info("service.ready"), stop)


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set `stop` on Ctrl-C and SIGTERM."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stop.set)


def _leaf(error: BaseException) -> BaseException:
    """What is inside groups that hold one error each; a group of several stays what it is."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
