"""Asks a running router over its HTTP port. IO."""

from __future__ import annotations

import argparse
import asyncio

import aiohttp

from warmroute.errors import StartError

DEFAULT_URL = "http://127.0.0.1:9090"

TIMEOUT_S = 10.0


def add_url(parser: argparse.ArgumentParser) -> None:
    """Where the router is."""
    parser.add_argument("--url", default=DEFAULT_URL, help=f"the router's HTTP; {DEFAULT_URL}")


def get(url: str, path: str, **query: str) -> bytes | None:
    """A page; None where there is no such thing. Raises StartError."""
    return asyncio.run(_get(url.rstrip("/") + path, query))


async def _get(page: str, query: dict[str, str]) -> bytes | None:
    timeout = aiohttp.ClientTimeout(total=TIMEOUT_S)
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(page, params=query) as response,
        ):
            body = await response.read()
    except (aiohttp.ClientError, TimeoutError, ValueError) as error:
        raise StartError(f"{page}: {error or 'no answer'}") from error
    if response.status == 404:
        return None
    if response.status != 200:
        raise StartError(f"{page}: {response.status} {body[:500].decode(errors='replace')}")
    return body
