"""The engines that `warmroute up` simulates: where they are, what they do, what starts them."""

from __future__ import annotations

import argparse
import ipaddress
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from warmroute.children import python
from warmroute.errors import StartError

EVENTS_PORT = 5557
REPLAY_PORT = 5657

BEHIND = 200
"""A decode engine listens so far above the port of the sidecar before it."""

ROLE_LABEL = "llm-d.ai/role"


class Engine(msgspec.Struct, frozen=True):
    """One simulated engine.

    Attributes:
        port: Where requests go: its own, or that of the sidecar before it.
        role: ``prefill`` or ``decode``; empty where it does both.
    """

    host: str
    port: int
    role: str = ""

    @property
    def has_sidecar(self) -> bool:
        """Whoever decodes what others have prefilled has one."""
        return self.role == "decode"

    @property
    def own_port(self) -> int:
        """Where the engine itself listens."""
        return self.port + BEHIND if self.has_sidecar else self.port

    def ports(self) -> Iterator[tuple[str, int, str]]:
        """Every port it takes: address, port, flag of `up` that moves it."""
        yield self.host, self.port, "--engine-port"
        if self.has_sidecar:
            yield self.host, self.own_port, "--engine-port"
        yield self.host, EVENTS_PORT, "--engine-host"
        yield self.host, REPLAY_PORT, "--engine-host"


def engines(arguments: argparse.Namespace, *, pd: bool) -> Iterator[Engine]:
    """What the flags of `up` ask for; `pd`: in two roles. Raises StartError."""
    count, port = arguments.engines, arguments.engine_port
    try:
        first = ipaddress.ip_address(arguments.engine_host)
    except ValueError as error:
        raise StartError(f"--engine-host: {error}") from error
    if pd and count < 2:
        raise StartError(f"prefill and decode take at least 2 engines, got --engines={count}")
    if pd and port + BEHIND > 65535:
        raise StartError(f"--engine-port: {port + BEHIND} is needed, too, and is no port")
    for i in range(count):
        role = "" if not pd else "prefill" if i < count // 2 else "decode"
        yield Engine(str(first + i), port, role)


def endpoints_file(chosen: Sequence[Engine]) -> bytes:
    """The file that names them to the router and to sidecars."""
    entries = [_entry(f"engine-{i}", engine) for i, engine in enumerate(chosen, 1)]
    return msgspec.yaml.encode({"endpoints": entries})


def _entry(name: str, engine: Engine) -> Mapping[str, object]:
    events = {
        "endpoint": f"tcp://{engine.host}:{EVENTS_PORT}",
        "replay": f"tcp://{engine.host}:{REPLAY_PORT}",
    }
    entry = {"name": name, "address": engine.host, "port": str(engine.port), "kvEvents": events}
    return entry | ({"labels": {ROLE_LABEL: engine.role}} if engine.role else {})


def engine_command(
    engine: Engine, model: str, directory: Path, block_size: int | None = None
) -> list[str]:
    """The engine itself; without a block size it has its default."""
    flags = [f"--host={engine.host}", f"--port={engine.own_port}", f"--model={model}={directory}"]
    if block_size is not None:
        flags.append(f"--block-size={block_size}")
    return python("engine", *flags, *(["--kv-transfer"] if engine.role else []))


def sidecar_command(engine: Engine, endpoints: Path) -> list[str]:
    """The sidecar before it."""
    return python(
        "pd-sidecar",
        f"--host={engine.host}",
        f"--port={engine.port}",
        f"--model-server-host={engine.host}",
        f"--model-server-port={engine.own_port}",
        f"--endpoints={endpoints}",
    )
