from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from warmroute.errors import StartError
from warmroute.running import INTERRUPTED, complete, run


def test_a_second_signal_does_not_wait_for_an_orderly_end() -> None:
    cleaned = []

    async def service(ready: Callable[[], None], stop: asyncio.Event) -> None:
        os.kill(os.getpid(), signal.SIGINT)
        await stop.wait()
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    assert run(service) == INTERRUPTED
    assert cleaned


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_being_told_to_stop_again_cuts_nothing_short(first: signal.Signals) -> None:
    ended = []

    async def service(ready: Callable[[], None], stop: asyncio.Event) -> None:
        os.kill(os.getpid(), first)
        await stop.wait()
        for _ in range(2):
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.01)
        ended.append(True)

    assert run(service) == 0
    assert ended


class Refused(Exception):
    """What a service raises where it cannot start."""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_a_signal_ends_a_service(number: signal.Signals) -> None:
    async def service(ready: Callable[[], None], stop: asyncio.Event) -> None:
        ready()
        os.kill(os.getpid(), number)
        await stop.wait()

    assert run(service) == 0


@pytest.mark.parametrize("error", [Refused("no room"), OSError("no room"), StartError("no room")])
@pytest.mark.parametrize("depth", [0, 1, 2])
def test_what_keeps_it_from_starting_becomes_a_start_error(error: Exception, depth: int) -> None:
    async def service(ready: Callable[[], None], stop: asyncio.Event) -> None:
        raised: Exception = error
        for _ in range(depth):
            raised = ExceptionGroup("tasks", [raised])
        raise raised

    with pytest.raises(StartError, match="no room"):
        run(service, Refused)


def test_a_fault_stays_a_fault() -> None:
    async def main() -> None:
        raise ExceptionGroup("tasks", [ValueError("a bug")])

    with pytest.raises(ExceptionGroup):
        complete(asyncio.run, main(), OSError)
