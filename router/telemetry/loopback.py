"""Keeps strangers from pages that tell of requests: only this machine is answered. IO."""

from __future__ import annotations

import ipaddress

import msgspec
from aiohttp import web
from aiohttp.typedefs import Handler

PROTECTED = ("/debug/",)
"""Paths that begin so; and the page at `/`."""

_REFUSED = msgspec.json.encode(
    {
        "error": {
            "message": "this page answers the machine it runs on; --open-debug opens it",
            "code": 403,
        }
    }
)


@web.middleware
async def loopback_only(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Refuse protected pages to clients of other machines."""
    protected = request.path == "/" or request.path.startswith(PROTECTED)
    if protected and not (is_loopback(request.remote) and _names_an_address(request.host)):
        return web.Response(body=_REFUSED, status=403, content_type="application/json")
    return await handler(request)


def is_loopback(address: str | None) -> bool:
    """Whether a client runs on this machine."""
    try:
        client = ipaddress.ip_address((address or "").partition("%")[0])
    except ValueError:
        return False
    mapped = client.ipv4_mapped if isinstance(client, ipaddress.IPv6Address) else None
    return (mapped or client).is_loopback


def _names_an_address(host: str) -> bool:
    """False for a name: a browser here sends one where a site elsewhere makes it ask us."""
    name = host.rpartition(":")[0] if not host.endswith("]") and ":" in host else host
    name = name.strip("[]")
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return name == "localhost"
    return True
