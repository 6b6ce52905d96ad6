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

_DEFAULTS = SidecarConfig(socket=DEFAULT_SOCKET, models={})


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    add = parser.add_argument
    add("--socket", type=Path, default=DEFAULT_SOCKET, help="Unix socket to serve on")
    add("--socket-mode", type=flags.octal, default=_DEFAULTS.socket_mode, help="its mode, octal")
    add(
        "--model",
        type=flags.model,
        action="append",
        metavar="NAME=DIR",
        help=f"a model and its directory; repeatable; default: the bundled {BUNDLED_MODEL!r}",
    )
    add("--metrics-host", default="127.0.0.1", help="address of /metrics")
    add(
        "--metrics-port", type=flags.port, help="port of /metrics, /healthz, /readyz; default: none"
    )
    add(
        "--drain-timeout",
        type=flags.duration,
        default=10.0,
        help="requests may take so long to end",
    )
    flags.add_switch(
        parser,
        "--trust-request-chat-template",
        default=False,
        text="use a chat template that comes in a request, as engines with this flag do",
    )
    add("--log-format", choices=("text", "json"), default="text")
    _add_bounds(parser.add_argument_group("bounds"))


def _add_bounds(group: argparse._ArgumentGroup) -> None:
    add = group.add_argument
    add(
        "--workers",
        type=flags.at_least_1,
        default=_DEFAULTS.workers,
        help="threads for short bodies, and as many for long ones",
    )
    add(
        "--max-queued",
        type=flags.count,
        default=_DEFAULTS.max_queued,
        help="requests that wait for a thread; further ones are refused",
    )
    add(
        "--max-in-flight",
        type=flags.at_least_1,
        default=_DEFAULTS.max_in_flight,
        help="requests of one router that are worked on; reading pauses beyond it",
    )
    add(
        "--inline-bytes",
        type=flags.count,
        default=_DEFAULTS.inline_bytes,
        help="longest body that is answered without a thread",
    )
    add(
        "--cache-bytes",
        type=flags.size,
        default=_DEFAULTS.cache_bytes,
        help="most memory per model for the ids of texts seen before",
    )
    add(
        "--max-body-bytes",
        type=flags.body_bytes,
        default=_DEFAULTS.max_body_bytes,
        help="largest body; that of the router",
    )


def models(given: Sequence[tuple[str, Path]] | None) -> dict[str, Path]:
    """The models of ``--model`` flags. Raises StartError for a directory that is not there."""
    chosen = dict(given or [(BUNDLED_MODEL, BUNDLED_MODEL_DIR)])
    for name, directory in chosen.items():
        if not directory.is_dir():
            raise StartError(f"--model {name}={directory}: no such directory")
    return chosen


def config(arguments: argparse.Namespace) -> SidecarConfig:
    """What the flags ask for. Raises StartError."""
    return SidecarConfig(
        socket=arguments.socket,
        models=models(arguments.model),
        socket_mode=arguments.socket_mode,
        trust_request_template=arguments.trust_request_chat_template,
        metrics_port=arguments.metrics_port,
        metrics_host=arguments.metrics_host,
        max_body_bytes=arguments.max_body_bytes,
        max_in_flight=arguments.max_in_flight,
        max_queued=arguments.max_queued,
        inline_bytes=arguments.inline_bytes,
        cache_bytes=arguments.cache_bytes,
        workers=arguments.workers,
        drain_s=arguments.drain_timeout,
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal."""
    log.configure(arguments.log_format)
    chosen = config(arguments)
    return run_service(lambda ready, stop: serve(chosen, ready, stop), ModelError)
