"""`warmroute explain`: where requests went, and why."""

from __future__ import annotations

import argparse
from urllib.parse import quote

import msgspec

from router.telemetry.decisions import Record
from warmroute import ask, flags
from warmroute.errors import StartError
from warmroute.explain_text import explained, listed


class _Listed(msgspec.Struct):
    decisions: list[Record]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument(
        "request_id", nargs="?", metavar="REQUEST_ID", help="its x-request-id; default: the last"
    )
    parser.add_argument(
        "--limit", type=flags.at_least_1, default=20, help="decisions in the list; default 20"
    )
    ask.add_url(parser)


def run(arguments: argparse.Namespace) -> int:
    """Print one decision, or the last ones. Raises StartError."""
    try:
        print("\n".join(_lines(arguments)))
    except msgspec.DecodeError as error:
        raise StartError(f"{arguments.url} is no router of this version: {error}") from error
    return 0


def _lines(arguments: argparse.Namespace) -> list[str]:
    request_id = arguments.request_id
    if request_id is not None:
        page = ask.get(arguments.url, f"/debug/decisions/{quote(request_id, safe='')}")
        if page is None:
            raise StartError(f"no decision of request {request_id!r} is kept")
        return list(explained(msgspec.json.decode(page, type=Record)))
    page = ask.get(arguments.url, "/debug/decisions", limit=str(arguments.limit))
    if page is None:
        raise StartError(f"{arguments.url} has no /debug/decisions: it is no router")
    decisions = msgspec.json.decode(page, type=_Listed).decisions
    return listed(decisions) if decisions else ["no request yet"]
