"""The `warmroute` command: one subcommand for each thing that can be started or asked."""

from __future__ import annotations

import argparse
import importlib
import os
import signal
import sys
from collections.abc import Mapping, Sequence

from warmroute import grpc_core
from warmroute.errors import StartError

COMMANDS: Mapping[str, tuple[str, str]] = {
    "up": ("warmroute.up", "everything on this machine: Envoy, router, sidecar, engines"),
    "serve": ("warmroute.serve", "the router (endpoint picker)"),
    "check": ("warmroute.check", "explain a configuration, or say what is wrong with it"),
    "explain": ("warmroute.explain", "where the last requests went, or one of them, and why"),
    "doctor": ("warmroute.doctor", "what is wrong, how it shows and what mends it"),
    "tokenizer": ("warmroute.tokenizer", "the tokenizer sidecar"),
    "engine": ("warmroute.engine", "one simulated engine"),
    "conductor": ("warmroute.conductor", "only the index and Motor's kv-conductor API"),
    "pd-sidecar": ("warmroute.pd_sidecar", "the proxy before a decode engine"),
    "envoy-config": ("warmroute.envoy_config", "print the Envoy bootstrap that fits"),
}
"""Command -> module with `add_arguments(parser)` and `run(arguments) -> exit code`, and its help. A
module is imported only when its command is asked for."""

SERVICES = frozenset({"up", "serve", "tokenizer", "engine", "conductor", "pd-sidecar"})
"""Commands that run until they are told to stop."""

INTERRUPTED = 130
"""What a shell reports of a command that ended by Ctrl-C."""

UNREAD = 141
"""What a shell reports of a command whose output nobody reads any more, as in ``| head``."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns its exit code; 1 with one line where it cannot start, 130 where it
    was interrupted before it could say how to end, 141 where its output is read no further. A
    service that SIGTERM reaches before it could say how to end has ended as it was told to: with 0.
    """
    arguments = list(sys.argv[1:] if argv is None else argv)
    before = signal.getsignal(signal.SIGTERM)
    try:
        if _chosen(arguments) in SERVICES:
            signal.signal(signal.SIGTERM, _end)
        code = _run(arguments)
        sys.stdout.flush()
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # What is left to print would raise once more at the interpreter's end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return UNREAD
    finally:
        signal.signal(signal.SIGTERM, before)
    return code


def _end(*_: object) -> None:
    # No exception, which what is being imported just then could swallow.
    os._exit(0)


def _chosen(arguments: Sequence[str]) -> str | None:
    return next((a for a in arguments if not a.startswith("-")), None)


def _run(arguments: Sequence[str]) -> int:
    grpc_core.settle()
    chosen = _chosen(arguments)
    parser = argparse.ArgumentParser(prog="warmroute", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text, allow_abbrev=False)
        if name == chosen:
            importlib.import_module(module).add_arguments(command)
    parsed = parser.parse_args(arguments)
    try:
        code: int = importlib.import_module(COMMANDS[parsed.command][0]).run(parsed)
    except StartError as error:
        print(f"warmroute {parsed.command}: {error}", file=sys.stderr)
        return 1
    return code
