"""What the router says of requests, good ones and bad ones: a line each, nothing of a prompt."""

from __future__ import annotations

import asyncio
import contextlib
from pathlib import Path
from typing import Any

import aiohttp
import msgspec
import pytest

from tests.end_to_end.faulty import faulty_fleet
from tests.support.processes import Fleet, until

SECRET = "Zanzibar-4711"

CHAT, COMPLETION = "/v1/chat/completions", "/v1/completions"

ASKED = [{"role": "user", "content": f"{SECRET} " * 20}]

REQUESTS: dict[str, tuple[str, Any, int]] = {
    "chat": (CHAT, {"model": "tiny", "messages": ASKED, "max_tokens": 2}, 200),
    "completion": (COMPLETION, {"model": "tiny", "prompt": SECRET, "max_tokens": 2}, 200),
    "stream": (CHAT, {"model": "tiny", "messages": ASKED, "max_tokens": 2, "stream": True}, 200),
    "cut-json": (CHAT, f'{{"model": "tiny", "messages": [{{"content": "{SECRET}', 400),
    "wrong-type": (CHAT, {"model": "tiny", "messages": SECRET}, 400),
    "wrong-part": (CHAT, {"model": "tiny", "messages": [{"role": "user", "content": 7}]}, 400),
    "wrong-limit": (COMPLETION, {"model": "tiny", "prompt": SECRET, "max_tokens": -5}, 400),
    "no-such-model": (COMPLETION, {"model": "huge", "prompt": SECRET}, 404),
    "no-such-role": (CHAT, {"model": "tiny", "messages": [{"role": SECRET, "content": ""}]}, 200),
    "no-such-path": (f"/v1/nothing?q={SECRET}", {"prompt": SECRET}, 404),
}
"""Request id -> path, body and the status of the answer."""


async def asked(fleet: Fleet, request_id: str, path: str, body: Any) -> int:
    data = body if isinstance(body, str) else msgspec.json.encode(body)
    headers = {"content-type": "application/json", "x-request-id": request_id}
    async with fleet.session.post(f"{fleet.url}{path}", data=data, headers=headers) as response:
        await response.read()
        return response.status


async def abandoned(fleet: Fleet) -> None:
    """A client that does not wait for its answer."""
    body = {"model": "tiny", "messages": ASKED, "max_tokens": 2000}
    with contextlib.suppress(TimeoutError, aiohttp.ClientError):
        async with asyncio.timeout(0.3):
            await asked(fleet, "abandoned", CHAT, body)


async def everything(fleet: Fleet) -> None:
    """Each kind of request once; one of them while the tokenizer is away."""
    for request_id, (path, body, status) in REQUESTS.items():
        assert await asked(fleet, request_id, path, body) == status, request_id
    await abandoned(fleet)
    fleet.kill("tokenizer")
    await fleet.processes["tokenizer"].wait()
    path, body, status = REQUESTS["chat"]
    assert await asked(fleet, "without-tokenizer", path, body) == status


def said(fleet: Fleet) -> str:
    """All that router and sidecar wrote."""
    return "".join(path.read_text() for path in fleet.folder.glob("[rt]*.log"))


async def test_each_request_is_one_line_of_json_without_its_prompt(tmp_path: Path) -> None:
    ids = [*REQUESTS, "abandoned", "without-tokenizer"]
    async with faulty_fleet(tmp_path, router_flags=("--log-level=debug",)) as fleet:
        await everything(fleet)
        await until(lambda: {event["request_id"] for event in fleet.ended()} >= set(ids))
        lines = [msgspec.json.decode(line) for line in fleet.log.read_bytes().splitlines()]
        ended = {event["request_id"]: event for event in fleet.ended()}
        mine = [event["request_id"] for event in fleet.ended() if event["request_id"] in ids]
        decisions = await fleet.get("/debug/decisions?limit=1000")
    assert all({"event", "level", "timestamp"} <= set(line) for line in lines)
    assert sorted(mine) == sorted(ids)
    told = {name: ended[name]["status"] for name in REQUESTS}
    assert told == {name: status for name, (_, _, status) in REQUESTS.items()}
    assert ended["abandoned"]["status"] is None
    assert ended["chat"]["prompt_tokens"] > 16
    assert ended["cut-json"]["refused"]
    assert ended["without-tokenizer"]["fallbacks"] == ["no token ids: unavailable"]
    assert SECRET not in said(fleet)
    assert SECRET not in str(decisions)


@pytest.mark.parametrize(("level", "lines"), [("info", 1), ("warning", 0)])
async def test_for_people_it_is_one_line_too_unless_the_level_leaves_it_out(
    tmp_path: Path, level: str, lines: int
) -> None:
    flags = ("--log-format=text", f"--log-level={level}")
    async with faulty_fleet(tmp_path, router_flags=flags) as fleet:
        await everything(fleet)
        await until(lambda: "tokenizer.lost" in fleet.log.read_text())
    text = fleet.log.read_text().splitlines()
    for request_id in [*REQUESTS, "without-tokenizer"]:
        found = [line for line in text if f"request_id={request_id} " in f"{line} "]
        assert len(found) == lines, request_id
    assert SECRET not in said(fleet)
