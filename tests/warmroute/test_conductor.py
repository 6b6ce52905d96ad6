"""`warmroute conductor` as a process."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import zmq

from tests.indexer.conductor.api import SIZE, TOPIC, covered, query, registering, stored
from tests.indexer.subscribed import Context, Publisher
from tests.support import markdown
from tests.support.ports import free_port
from tests.support.processes import command, process, until

REGISTRATION = {
    "instance_id": "vllm-union-1",
    "modelname": "m",
    "block_size": 128,
    "dp_rank": 0,
    "type": "vLLM",
}


@pytest.fixture
def context() -> Iterator[Context]:
    context: Context = zmq.Context()
    yield context
    context.destroy(linger=0)


async def health(session: aiohttp.ClientSession, url: str) -> bool:
    try:
        async with session.get(f"{url}/health") as response:
            return await response.text() == "OK"
    except aiohttp.ClientError:
        return False


async def test_it_serves_the_api_and_keeps_registrations(tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    start = command("conductor", f"--port={port}", f"--state-dir={tmp_path}")
    async with aiohttp.ClientSession() as session:
        for status in (201, 409):
            async with process(start, tmp_path / f"{status}.log") as running:
                await until(lambda: health(session, url))
                async with session.post(f"{url}/register", json=REGISTRATION) as response:
                    assert response.status == status
                running.send_signal(signal.SIGTERM)
                assert await running.wait() == 0


async def test_killed_it_comes_back_to_what_engines_hold(context: Context, tmp_path: Path) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    flags = (f"--port={port}", f"--state-dir={tmp_path}", "--state-interval=50ms")
    async with aiohttp.ClientSession() as session:
        with Publisher(context) as engine:
            body = registering(medium_endpoints={"npu": engine.endpoint})
            answers = []
            for life in range(2):
                start = command("conductor", *flags)
                async with process(start, tmp_path / f"{life}.log") as running:
                    await until(lambda: health(session, url))
                    if not life:
                        await _asked(session, f"{url}/register", body)
                    await engine.heard()
                    engine.send(*([] if life else [stored([11, 12])]), topic=TOPIC)
                    await until(lambda: _holds_something(session, url))
                    answers.append(await _asked(session, f"{url}/query", query()))
                    await _saved(tmp_path)
                    running.kill()
                    await running.wait()
                await engine.heard(0)
    ranks = {"0": covered(2)}
    found = {"vllm-prefill-1": {"longest_matched": 2 * SIZE, "DP": ranks}}
    assert answers == [{"default": found}] * 2


async def _asked(session: aiohttp.ClientSession, url: str, body: dict[str, Any]) -> Any:
    async with session.post(url, json=body) as response:
        assert response.ok, await response.text()
        return await response.json()


async def _holds_something(session: aiohttp.ClientSession, url: str) -> bool:
    return bool((await _asked(session, f"{url}/query", query()))["default"])


async def _saved(folder: Path) -> None:
    """Wait for a saving that began after this call: the first may have begun before."""
    for _ in range(2):
        _unlink(folder)
        await until(lambda: any(folder.glob("*.snapshot")))


def _unlink(folder: Path) -> None:
    for path in folder.glob("*.snapshot"):
        path.unlink()


async def test_the_client_of_the_manual_prints_what_it_says(tmp_path: Path) -> None:
    manual = markdown.read("docs/motor.md")
    (script,), (printed,) = markdown.blocks(manual, "python"), markdown.blocks(manual, "text")
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    async with (
        aiohttp.ClientSession() as session,
        process(command("conductor", f"--port={port}"), tmp_path / "conductor.log"),
    ):
        await until(lambda: health(session, url))
        client = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", script),
            env={**os.environ, "CONDUCTOR_URL": url},
            stdout=asyncio.subprocess.PIPE,
        )
        output, _ = await client.communicate()
    assert client.returncode == 0
    assert output.decode() == printed


async def test_what_keeps_it_from_starting_is_one_line(tmp_path: Path) -> None:
    start = command("conductor", f"--port={free_port()}", f"--state-dir={tmp_path / 'gone'}")
    async with process(start, tmp_path / "log") as running:
        assert await running.wait() == 1
    (line,) = (tmp_path / "log").read_text().splitlines()
    assert line.startswith("warmroute conductor: --state-dir:")
