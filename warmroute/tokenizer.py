"""`warmroute tokenizer`: the tokenizer sidecar."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from simulator.config import BUNDLED_MODEL_DIR
from tokenizer_sidecar.errors import ModelError
from tokenizer_sidecar.server import SidecarConfig, serve
from warmroute import flags, log
from warmroute.errors import StartError
from warmroute.running import run as run_service

DEFAULT_SOCKET = Path("/run/warmroute/tokenizer.sock")
BUNDLED_MODEL = "tiny"
"""Name of the model that comes with the package."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    add = parser.add_argument
    add("--socket", type=Path, default=DEFAULT_SOCKET, help="Unix socket to serve on")
    add("--socket-mode", type=flags.octal, default=0o660, help="its mode, octal")
    add(
        "--model",
        type=flags.model,
        action="append",
        metavar="NAME=DIR",
        help=f"a model and its directory; repeatable; default: the bundled {BUNDLED_MODEL!r}",
    )
    add("--metrics-host", default="127.0.0.1", help="address of /metrics")
    add("--metrics-port", type=flags.port, help="port of /metrics; default: none")
    add("--log-format", choices=("text", "json"), default="text")


def models(given: Sequence[tuple[str, Path]] | None) -> dict[str, Path]:
    """The models of ``--model`` flags. Raises StartError for a directory that is not there."""
    chosen = dict(given or [(BUNDLED_MODEL, BUNDLED_MODEL_DIR)])
    for name, directory in chosen.items():
        if not directory.is_dir():
            raise StartError(f"--model {name}={directory}: no such directory")
    return chosen


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal."""
    log.configure(arguments.log_format)
    config = SidecarConfig(
        socket=arguments.socket,
        models=models(arguments.model),
        socket_mode=arguments.socket_mode,
        metrics_port=arguments.metrics_port,
        metrics_host=arguments.metrics_host,
    )
    return run_service(lambda ready, stop: serve(config, ready, stop), ModelError)
