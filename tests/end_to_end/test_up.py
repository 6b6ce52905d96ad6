"""`make run`, seen from outside, and what keeps it from starting."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.support.ports import free_port, loopback_block
from tests.support.processes import command, is_running, until

ROOT = Path(__file__).parents[2]
START_S = 90.0


def own_ports() -> list[str]:
    """Flags that keep this test out of every other one's way."""
    return [
        f"--port={free_port()}",
        f"--grpc-port={free_port()}",
        f"--grpc-health-port={free_port()}",
        f"--metrics-port={free_port()}",
        f"--engine-host={loopback_block()}",
    ]


@asynccontextmanager
async def started(
    argv: list[str], output: Path, **extra: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    with output.open("wb") as file:
        process = await asyncio.create_subprocess_exec(
            *argv, cwd=ROOT, stdout=file, stderr=file, start_new_session=True,
            env={**os.environ, **extra},
        )  # fmt: skip
        try:
            yield process
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
                await process.wait()


def descendants(pid: int) -> set[int]:
    """All processes below `pid`."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: set[int] = set()
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found.update(below)
        waiting += below
    return found


def command_line(pid: int) -> str:
    return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()


async def run(argv: list[str], **extra: str) -> tuple[int, str]:
    """A command to its end: exit code and what it said."""
    process = await asyncio.create_subprocess_exec(
        *argv,
        cwd=ROOT,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env={**os.environ, **extra},
    )
    async with asyncio.timeout(START_S):
        said, _ = await process.communicate()
    assert process.returncode is not None
    return process.returncode, said.decode()


async def test_prefill_and_decode_apart_are_shown_too(tmp_path: Path) -> None:
    output = tmp_path / "output"
    flags = own_ports()
    async with started(command("up", "--pd", "--engines=2", *flags), output) as process:
        await until(lambda: "Ctrl-C stops everything" in output.read_text(), START_S)
        greeting = output.read_text()
        assert re.search(r"^engine-1 .*, prefill\)$", greeting, re.MULTILINE)
        assert re.search(r"^engine-2 .*, decode\)$", greeting, re.MULTILINE)
        (curl,) = re.findall(r"^  curl (\S+) .* -d '(.*)'$", greeting, re.MULTILINE)
        async with aiohttp.ClientSession() as session:
            for _ in range(2):
                async with session.post(curl[0], json=json.loads(curl[1])) as response:
                    assert response.status == 200
                await asyncio.sleep(0.5)  # the engine's events take a moment to arrive
        await until(lambda: output.read_text().count("\nchat ") == 2)
        lines = [line for line in output.read_text().splitlines() if line.startswith("chat ")]
        assert ["  prefill 127." in line for line in lines] == [True, False]
        below = descendants(process.pid)
        process.send_signal(signal.SIGINT)
        async with asyncio.timeout(30):
            assert await process.wait() == 0
        assert [pid for pid in below if is_running(pid)] == []


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
@pytest.mark.skipif(not (ROOT / "Makefile").exists(), reason="only in a checkout")
async def test_make_run_answers_the_curl_it_prints_and_leaves_nothing_behind(
    tmp_path: Path,
) -> None:
    output = tmp_path / "output"
    make = ["make", "--no-print-directory", "run", f"ARGS={' '.join(own_ports())}"]
    async with started(make, output) as process:
        await until(lambda: "Ctrl-C stops everything" in output.read_text(), START_S)
        greeting = output.read_text()
        for name in ("engine-1", "engine-4", "tokenizer", "router", "envoy"):
            assert re.search(rf"^{name} +ready", greeting, re.MULTILINE), greeting
        (curl,) = re.findall(r"^  (curl .*)$", greeting, re.MULTILINE)
        for _ in range(2):
            code, answer = await run([*shlex.split(curl), "--silent", "--max-time", "10"])
            assert code == 0
            assert '"chat.completion"' in answer
        await until(lambda: output.read_text().count("\nchat ") == 2)
        lines = [line for line in output.read_text().splitlines() if line.startswith("chat ")]
        assert "cached 0 predicted, 0 reported of" in lines[0]
        second = re.search(r"cached (\d+) predicted, (\d+) reported of (\d+)", lines[1])
        assert second is not None
        assert int(second[1]) == int(second[2]) > 0
        assert lines[0].split()[1] == lines[1].split()[1]

        below = descendants(process.pid)
        assert len(below) >= 7
        os.killpg(process.pid, signal.SIGINT)
        async with asyncio.timeout(30):
            await process.wait()
        await until(lambda: not any(is_running(pid) for pid in below))
        assert "Traceback" not in output.read_text()


async def test_no_child_outlives_a_killed_parent(tmp_path: Path) -> None:
    output = tmp_path / "output"
    argv = command("up", "--engines=1", *own_ports())
    async with started(argv, output) as process:
        await until(lambda: "Ctrl-C stops everything" in output.read_text(), START_S)
        below = descendants(process.pid)
        assert len(below) == 4
        process.kill()
        await process.wait()
        await until(lambda: not any(is_running(pid) for pid in below), 30)


async def test_a_child_that_dies_ends_everything_with_one_line(tmp_path: Path) -> None:
    output = tmp_path / "output"
    argv = command("up", "--engines=2", *own_ports())
    async with started(argv, output) as process:
        await until(lambda: "Ctrl-C stops everything" in output.read_text(), START_S)
        below = descendants(process.pid)
        said = len(output.read_text())
        os.kill(next(pid for pid in below if "engine" in command_line(pid)), signal.SIGKILL)
        async with asyncio.timeout(30):
            assert await process.wait() == 1
        assert not any(is_running(pid) for pid in below)
        last = output.read_text()[said:].strip().splitlines()
        assert len(last) == 1
        assert re.match(r"warmroute up: engine-\d ended by signal 9", last[0])


async def test_a_port_in_use_is_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = await run(command("up", *own_ports(), f"--port={port}"))
    assert code == 1
    assert said.splitlines() == [
        f"warmroute up: 127.0.0.1:{port} cannot be used: Address already in use (--port moves it)"
    ]


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["up", "--model=m=/nowhere/at/all"], "--model m=/nowhere/at/all: no such directory"),
        (
            ["tokenizer", "--model=m=/nowhere/at/all"],
            "--model m=/nowhere/at/all: no such directory",
        ),
        (["engine", "--model=m=/nowhere/at/all"], "--model m=/nowhere/at/all: no such directory"),
        (["serve"], "no endpoints: name a file with --endpoints"),
        (["serve", "--endpoints=/nowhere"], "/nowhere"),
        (["serve", "--config-text=a: [", "--endpoints=x"], "--config-text: not valid YAML"),
        (["up", "--config=/nowhere"], "/nowhere"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
async def test_what_cannot_start_says_why_in_one_line(flags: list[str], said: str) -> None:
    code, output = await run(command(*flags))
    assert code == 1
    assert "Traceback" not in output
    lines = [line for line in output.splitlines() if not line.startswith("{")]
    assert len(lines) == 1, output
    assert lines[0].startswith(f"warmroute {flags[0]}: ")
    assert said in lines[0]


async def test_a_router_port_in_use_is_one_line(tmp_path: Path) -> None:
    endpoints = tmp_path / "endpoints.yaml"
    endpoints.write_text("endpoints: []\n")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = await run(
            command(
                "serve",
                f"--endpoints={endpoints}",
                "--bind-address=127.0.0.1",
                f"--grpc-port={port}",
                f"--grpc-health-port={free_port()}",
                f"--metrics-port={free_port()}",
            )
        )
    assert code == 1
    assert "Traceback" not in said
    assert f"warmroute serve: cannot listen on 127.0.0.1:{port}" in said
