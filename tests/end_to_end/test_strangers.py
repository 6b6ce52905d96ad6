"""Another machine asks a real router for its pages: only what tells of no request is answered."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import aiohttp
import msgspec
import pytest

from tests.end_to_end.routers import router
from tests.support.namespaces import Neighbour, neighbour
from tests.support.processes import Fleet

OPEN = {"/metrics": 200, "/healthz": 200, "/readyz": 200}
"""What monitors and probes of other machines ask for."""

PROTECTED = {
    "/": 200,
    "/debug/state": 200,
    "/debug/doctor": 200,
    "/debug/decisions": 200,
    "/debug/decisions/nobody": 404,
    "/debug/events": 200,
    "/debug/match": 400,
}
"""What tells of requests, and how it is answered where it is; the match is asked of no prompt."""

ASK = """\
import json, sys, urllib.error, urllib.request
asked, headers = json.loads(sys.argv[1])
statuses, refusal = {}, ""
for url in asked:
    data = b"{}" if url.endswith("/match") else None
    request = urllib.request.Request(url, data, headers)
    try:
        with urllib.request.urlopen(request, timeout=10) as answer:
            statuses[url] = answer.status
    except urllib.error.HTTPError as error:
        statuses[url] = error.code
        refusal = error.read().decode()
print(json.dumps([statuses, refusal]))
"""
"""Run there: prints the status of each page, and what the last refusal said."""


@pytest.fixture(scope="module")
def stranger() -> Iterator[Neighbour]:
    with neighbour() as made:
        yield made


async def ask(
    stranger: Neighbour, url: str, headers: Mapping[str, str]
) -> tuple[dict[str, int], str]:
    """How each page is answered to another machine."""
    asked = [f"{url}{path}" for path in (*OPEN, *PROTECTED)]
    told = msgspec.json.encode([asked, headers]).decode()
    process = await asyncio.create_subprocess_exec(
        *stranger.runs([sys.executable, "-c", ASK, told]), stdout=asyncio.subprocess.PIPE
    )
    async with asyncio.timeout(60):
        output, _ = await process.communicate()
    statuses, refusal = msgspec.json.decode(output)
    return {asked.removeprefix(url): status for asked, status in statuses.items()}, refusal


@pytest.mark.parametrize("flags", [(), ("--open-debug",)], ids=["closed", "open"])
async def test_pages_that_tell_of_requests_answer_no_other_machine_until_they_are_opened(
    stranger: Neighbour, tmp_path: Path, flags: tuple[str, ...]
) -> None:
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=30)) as session:
        fleet = Fleet(tmp_path, session)
        fleet.http = f"http://{stranger.here}:{fleet.http_port}"
        (tmp_path / "endpoints.json").write_text('{"endpoints": []}')
        async with router(fleet, f"--bind-address={stranger.here}", *flags):
            for headers in (
                {},
                {"host": f"localhost:{fleet.http_port}", "x-forwarded-for": "127.0.0.1"},
            ):
                statuses, refusal = await ask(stranger, fleet.http, headers)
                protected = PROTECTED if flags else dict.fromkeys(PROTECTED, 403)
                assert statuses == {**OPEN, **protected}
                assert ("--open-debug opens it" in refusal) is not bool(flags)
