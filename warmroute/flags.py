"""Command-line values as Go programs write them, since charts do."""

from __future__ import annotations

import argparse
import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path

from router.config.duration import seconds
from router.config.errors import ConfigError

MAX_BODY_BYTES = 2_000_000_000

DEFAULT_INDEX_BYTES = 2 << 30
"""Room for about ten million blocks; as much as llm-d gives an index that counts its bytes."""

_TRUE = frozenset({"1", "t", "true"})
_FALSE = frozenset({"0", "f", "false"})

_UNITS: Mapping[str, int] = {
    "": 1,
    **{suffix: 1000**power for power, suffix in enumerate(("k", "M", "G", "T"), 1)},
    **{suffix: 1024**power for power, suffix in enumerate(("Ki", "Mi", "Gi", "Ti"), 1)},
}
"""Suffixes of a Kubernetes quantity."""


def add_switch(parser: argparse._ActionsContainer, name: str, *, default: bool, text: str) -> None:
    """A flag that takes ``--name``, ``--name=true`` and ``--name=false``."""
    parser.add_argument(
        name, type=boolean, nargs="?", const=True, default=default, metavar="BOOL", help=text
    )


def add_rename_flag(parser: argparse._ActionsContainer) -> None:
    """What becomes of the model's name in answers to rewritten requests."""
    add_switch(
        parser, "--rewrite-response-model", default=False, text="answers name the client's model"
    )


def add_debug_flags(parser: argparse._ActionsContainer) -> None:
    """Who may see what becomes of requests, and under which names."""
    add_switch(parser, "--open-debug", default=False, text="/ and /debug/* answer other machines")
    add_switch(
        parser, "--explain-header", default=False, text="answer x-warmroute-explain in a header"
    )
    add_switch(parser, "--legacy-metric-names", default=False, text="inference_pool_… and …, too")
    add_switch(
        parser, "--enable-grpc-stream-metrics", default=False, text="how ext_proc streams end, too"
    )
    add_switch(parser, "--tracing", default=False, text="send spans to where OTEL_… variables say")


def debug_flags(arguments: argparse.Namespace) -> list[str]:
    """The same, for a router that is started as a child."""
    return [
        f"--open-debug={arguments.open_debug}",
        f"--explain-header={arguments.explain_header}",
        f"--legacy-metric-names={arguments.legacy_metric_names}",
        f"--enable-grpc-stream-metrics={arguments.enable_grpc_stream_metrics}",
        f"--tracing={arguments.tracing}",
    ]


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


def size(text: str) -> int:
    """Bytes, as a Kubernetes quantity: ``1073741824``, ``1Gi``, ``1.5G``; ``1GiB`` is ``1Gi``."""
    told = re.fullmatch(r"([0-9]{1,15}(?:\.[0-9]{1,9})?)([A-Za-z]{0,2})B?", text)
    if told is None or told[2] not in _UNITS:
        raise argparse.ArgumentTypeError(f"expected bytes such as 512Mi or 2Gi, got {text!r}")
    return int(Decimal(told[1]) * _UNITS[told[2]])


def add_index_bytes(parser: argparse._ActionsContainer) -> None:
    """What the index may take."""
    add = parser.add_argument
    add("--index-bytes", type=size, default=DEFAULT_INDEX_BYTES, metavar="BYTES",
        help="what all indexed blocks may take; 0: no bound; default 2Gi")  # fmt: skip
    add("--index-bytes-per-endpoint", type=size, default=0, metavar="BYTES",
        help="what those of one endpoint may take; 0: no bound; default")  # fmt: skip


def add_index_flags(parser: argparse._ActionsContainer) -> None:
    """What the index may take, and where it is kept."""
    add_index_bytes(parser)
    add = parser.add_argument
    add("--state-dir", type=Path, metavar="DIR", help="keep the index here, for the next start")
    add("--state-interval", type=duration, default=20.0, help="between two savings")


def tls_version(text: str) -> str:
    """Go's name of a version of TLS that is spoken at least: 1.2, below which gRPC never goes."""
    if text not in ("", "VersionTLS10", "VersionTLS11", "VersionTLS12"):
        raise argparse.ArgumentTypeError(
            f"expected VersionTLS12, got {text!r}: gRPC cannot be held to a later version"
        )
    return text


def refused(instead: str) -> Callable[[str], str]:
    """A flag that cannot be honoured unless it is empty; the error says what to do instead."""

    def check(text: str) -> str:
        if text:
            raise argparse.ArgumentTypeError(f"not available: {instead}")
        return text

    return check


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
