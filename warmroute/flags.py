"""Command-line values as Go programs write them, since charts do."""

from __future__ import annotations

import argparse
from pathlib import Path

from router.config.duration import seconds
from router.config.errors import ConfigError

MAX_BODY_BYTES = 2_000_000_000

_TRUE = frozenset({"1", "t", "true"})
_FALSE = frozenset({"0", "f", "false"})


def add_switch(parser: argparse._ActionsContainer, name: str, *, default: bool, text: str) -> None:
    """A flag that takes ``--name``, ``--name=true`` and ``--name=false``."""
    parser.add_argument(
        name, type=boolean, nargs="?", const=True, default=default, metavar="BOOL", help=text
    )


def boolean(text: str) -> bool:
    """Go's spelling of a boolean."""
    if text.lower() in _TRUE:
        return True
    if text.lower() in _FALSE:
        return False
    raise argparse.ArgumentTypeError(f"expected true or false, got {text!r}")


def duration(text: str) -> float:
    """Seconds."""
    try:
        return seconds(text, "flag")
    except ConfigError as error:
        raise argparse.ArgumentTypeError(
            f"expected a duration such as 30s, got {text!r}"
        ) from error


def port(text: str) -> int:
    """A TCP port."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= 65535:
        raise argparse.ArgumentTypeError(f"expected a port between 1 and 65535, got {text!r}")
    return int(text)


def count(text: str) -> int:
    """A number that is not negative."""
    if not text.isascii() or not text.isdigit():
        raise argparse.ArgumentTypeError(f"expected a number that is not negative, got {text!r}")
    return int(text)


def at_least_1(text: str) -> int:
    """A number above zero."""
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"expected a number of at least 1, got {text!r}")
    return int(text)


def body_bytes(text: str) -> int:
    """The largest request body; gRPC counts message sizes in signed 32-bit numbers."""
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= MAX_BODY_BYTES:
        raise argparse.ArgumentTypeError(
            f"expected a number of bytes between 1 and {MAX_BODY_BYTES}, got {text!r}"
        )
    return int(text)


def octal(text: str) -> int:
    """Permissions of a file."""
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o777:
        raise argparse.ArgumentTypeError(f"expected an octal mode up to 777, got {text!r}")
    return mode


def model(text: str) -> tuple[str, Path]:
    """``NAME=DIR``."""
    name, equals, directory = text.partition("=")
    if not name or not equals or not directory:
        raise argparse.ArgumentTypeError(f"expected NAME=DIR, got {text!r}")
    return name, Path(directory)
