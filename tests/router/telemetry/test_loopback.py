from __future__ import annotations

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from router.telemetry.loopback import is_loopback, loopback_only


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("127.0.0.1", True),
        ("127.9.9.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("10.0.0.1", False),
        ("::ffff:10.0.0.1", False),
        ("fe80::1%eth0", False),
        ("", False),
        (None, False),
    ],
)
def test_only_this_machine_is_loopback(address: str | None, here: bool) -> None:
    assert is_loopback(address) is here


async def status(path: str, client: str, host: str) -> int:
    async def page(request: web.Request) -> web.StreamResponse:
        return web.Response()

    request = make_mocked_request("GET", path, {"host": host}).clone(remote=client)
    return (await loopback_only(request, page)).status


LOCAL = "127.0.0.1:9090"


@pytest.mark.parametrize(
    ("path", "client", "host", "expected"),
    [
        ("/debug/state", "127.0.0.1", LOCAL, 200),
        ("/debug/state", "::1", "[::1]:9090", 200),
        ("/debug/state", "127.0.0.1", "localhost:9090", 200),
        ("/debug/state", "127.0.0.1", "localhost", 200),
        ("/debug/state", "10.0.0.9", LOCAL, 403),
        ("/debug/decisions/r1", "10.0.0.9", LOCAL, 403),
        ("/debug/match", "10.0.0.9", LOCAL, 403),
        ("/", "10.0.0.9", LOCAL, 403),
        ("/debug/state", "127.0.0.1", "rebound.example:9090", 403),
        ("/metrics", "10.0.0.9", "picker:9090", 200),
        ("/healthz", "10.0.0.9", "picker:9090", 200),
        ("/readyz", "10.0.0.9", "picker:9090", 200),
    ],
)
async def test_pages_that_tell_of_requests_answer_this_machine_only(
    path: str, client: str, host: str, expected: int
) -> None:
    assert await status(path, client, host) == expected
