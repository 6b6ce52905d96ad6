"""`warmroute doctor`: what is wrong with a running router's world, and what mends it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

import msgspec

from router.telemetry.doctor.finding import Finding, Value
from warmroute import ask, flags
from warmroute.errors import StartError
from warmroute.tables import plain


class _Told(msgspec.Struct):
    findings: list[Finding]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument(
        "--silence",
        type=flags.duration,
        metavar="DURATION",
        help="how long events may stay away after a prompt was computed; default 30s",
    )
    ask.add_url(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print all findings. 1 if there are any. Raises StartError."""
    silence = arguments.silence
    query = {} if silence is None else {"silence": f"{silence:f}s"}
    page = ask.get(arguments.url, "/debug/doctor", **query)
    if page is None:
        raise StartError(f"{arguments.url} has no /debug/doctor: it is no router")
    try:
        findings = msgspec.json.decode(page, type=_Told).findings
    except msgspec.DecodeError as error:
        raise StartError(f"{arguments.url} is no router of this version: {error}") from error
    print("\n".join(report(findings)))
    return 1 if findings else 0


def report(findings: Sequence[Finding]) -> Iterator[str]:
    """Each finding with its evidence and its fix."""
    if not findings:
        yield "nothing is wrong"
        return
    for finding in findings:
        yield plain(f"{finding.about}: {finding.what}  [{finding.code}]")
        told = ", ".join(f"{name}={_value(value)}" for name, value in finding.evidence.items())
        yield plain(f"  evidence  {told}")
        yield plain(f"  fix       {finding.fix}")
        yield ""
    yield f"{len(findings)} finding{'s' if len(findings) > 1 else ''}"


def _value(value: Value) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
