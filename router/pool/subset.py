"""Which endpoints a hint of the data plane means: ``ip``, every port of it, or ``ip:port``."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Sequence

from router.pool.endpoint import Endpoint


def within(endpoints: Sequence[Endpoint], hint: Iterable[str]) -> list[Endpoint]:
    """The endpoints that are meant, in their order. What makes no sense means nobody."""
    meant = {place for text in hint if (place := place_of(text)) is not None}
    return [e for e in endpoints if _is_meant(e, meant)]


def place_of(text: str) -> tuple[str, str] | None:
    """Host in its shortest form and port; an empty port where there is none.

    IPv6 may stand in brackets, and must where a port follows.
    """
    host, port = text, ""
    if text.startswith("["):
        host, bracket, rest = text[1:].partition("]")
        if not bracket or (rest and not rest.startswith(":")):
            return None
        port = rest[1:]
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    try:
        return str(ipaddress.ip_address(host)), port
    except ValueError:
        return None


def _is_meant(endpoint: Endpoint, meant: set[tuple[str, str]]) -> bool:
    place = place_of(endpoint.address)
    return place is not None and (place in meant or (place[0], "") in meant)
