"""The `warmroute` command: one subcommand for each thing that can be started or asked."""

from __future__ import annotations

import argparse
import importlib
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

INTERRUPTED = 130
"""What a shell reports of a command that ended by Ctrl-C."""


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command. Returns its exit code; 1 with one line where it cannot start, 130 where it
    was interrupted before it could say how to end."""
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except KeyboardInterrupt:
        return INTERRUPTED


def _run(arguments: Sequence[str]) -> int:
    grpc_core.settle()
    chosen = next((a for a in arguments if not a.startswith("-")), None)
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
