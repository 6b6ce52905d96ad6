from __future__ import annotations

import asyncio
import sys

from tests.support.processes import until
from warmroute.children import Child, python


def script(text: str) -> Child:
    return Child("worker", [sys.executable, "-c", text])


async def test_output_is_handed_on_line_by_line() -> None:
    lines: list[str] = []
    async with asyncio.TaskGroup() as group:
        child = script("print('one'); print('two' * 100_000); print('three')")
        await child.start(group, lines.append)
        assert await child.ended() == 0
    # A line longer than the buffer is dropped, the ones around it are not.
    assert lines[0] == "one"
    assert lines[-1] == "three"


async def test_a_failure_tells_the_exit_code_and_the_last_error() -> None:
    async with asyncio.TaskGroup() as group:
        child = script("import sys; print('reason', file=sys.stderr); sys.exit(3)")
        await child.start(group, print)
        code = await child.ended()
    assert str(child.failure(code)) == "worker ended with exit code 3: reason"
    assert str(child.failure(-9)) == "worker ended by signal 9: reason"


async def test_stopping_asks_first_and_is_repeatable() -> None:
    lines: list[str] = []
    text = (
        "import signal, sys, time\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))\n"
        "print('up', flush=True)\n"
        "time.sleep(60)"
    )
    async with asyncio.TaskGroup() as group:
        child = script(text)
        await child.start(group, lines.append)
        await until(lambda: lines == ["up"])
        await child.stop()
        assert await child.ended() == 0
        await child.stop()


def test_a_command_ignores_packages_of_the_current_directory() -> None:
    assert python("up")[:4] == [sys.executable, "-P", "-m", "warmroute"]
