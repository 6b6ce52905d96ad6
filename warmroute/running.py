"""Runs one service until a signal; what keeps it from starting becomes one line. IO."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Awaitable, Callable, Coroutine

import structlog
import uvloop

from warmroute.errors import StartError

log = structlog.get_logger()

INTERRUPTED = 130
"""Exit code where a second Ctrl-C cut the end short, as shells have it."""

Service = Callable[[Callable[[], None], asyncio.Event], Awaitable[None]]
"""Takes what to call once it serves and the event that ends it."""


def run(service: Service, *refusals: type[Exception]) -> int:
    """Run to the end; its exit code. Errors in `refusals` (and OSError) become a StartError."""
    return complete(uvloop.run, _until_signal(service), OSError, *refusals)


def complete(
    runner: Callable[[Coroutine[None, None, None]], None],
    main: Coroutine[None, None, None],
    *refusals: type[Exception],
) -> int:
    """Run `main`; its exit code. An error in `refusals`, also inside groups, is a StartError."""
    try:
        runner(main)
    except asyncio.CancelledError:
        return INTERRUPTED
    except Exception as error:
        cause = _leaf(error)
        if isinstance(cause, (StartError, *refusals)):
            raise StartError(str(cause)) from error
        raise
    return 0


async def _until_signal(service: Service) -> None:
    stop = asyncio.Event()
    stop_on_signals(stop)
    await service(lambda: log.info("service.ready"), stop)


def stop_on_signals(stop: asyncio.Event) -> None:
    """Set `stop` on Ctrl-C and SIGTERM; Ctrl-C after either ends the current task at once.

    SIGTERM does not, however often it comes: supervisors repeat it, and requests are on their way.
    """
    loop, main = asyncio.get_running_loop(), asyncio.current_task()

    def on_interrupt() -> None:
        if stop.is_set() and main is not None:
            main.cancel()
        stop.set()

    loop.add_signal_handler(signal.SIGINT, on_interrupt)
    loop.add_signal_handler(signal.SIGTERM, stop.set)


def _leaf(error: BaseException) -> BaseException:
    """What is inside groups that hold one error each; a group of several stays what it is."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
