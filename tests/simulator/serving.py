"""Whole engines on free loopback ports, and clients that talk to them."""

from __future__ import annotations

import asyncio
import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp

from simulator.config import EngineConfig
from simulator.http import Bound, running

TIMEOUT_S = 20.0

MESSAGES = [{"role": "user", "content": "Say hi."}]


class Client:
    """Speaks HTTP to one engine."""

    def __init__(self, session: aiohttp.ClientSession, bound: Bound) -> None:
        self.http = session
        self.bound = bound

    async def post(self, path: str, body: object, **headers: str) -> tuple[int, Any]:
        """Status and body: JSON where it is, else text. Text and bytes are sent as they are."""
        as_it_is = isinstance(body, str | bytes | io.BytesIO)
        sent: dict[str, Any] = {"data" if as_it_is else "json": body}
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        if as_it_is and "content-type" not in map(str.lower, named):
            named["Content-Type"] = "application/json"
        async with self.http.post(path, headers=named, **sent) as response:
            return response.status, await content(response)

    async def get(self, path: str) -> tuple[int, Any]:
        async with self.http.get(path) as response:
            return response.status, await content(response)

    async def ok(self, path: str, body: object, **headers: str) -> Any:
        status, answer = await self.post(path, body, **headers)
        assert status == 200, answer
        return answer

    async def complete(self, prompt: object, **fields: Any) -> Any:
        return await self.ok("/v1/completions", {"prompt": prompt, **fields})

    async def chat(self, **fields: Any) -> Any:
        return await self.ok("/v1/chat/completions", {"messages": MESSAGES, **fields})

    async def metric(self, name: str, rank: int = 0) -> float:
        _, text = await self.get("/metrics")
        start = f'vllm:{name}{{engine="{rank}",model_name="tiny"}} '
        return next(
            float(line.removeprefix(start)) for line in text.splitlines() if line.startswith(start)
        )

    async def until_metric(self, name: str, value: float) -> None:
        """Wait until a gauge shows a value."""
        async with asyncio.timeout(TIMEOUT_S):
            while await self.metric(name) != value:  # noqa: ASYNC110 - no event crosses HTTP
                await asyncio.sleep(0.005)


async def content(response: aiohttp.ClientResponse) -> Any:
    is_json = response.content_type == "application/json"
    return await (response.json() if is_json else response.text())


@asynccontextmanager
async def served(**fields: Any) -> AsyncIterator[Client]:
    """An engine that takes no time to decode, unless told otherwise."""
    defaults = {"port": 0, "kv_events_port": 0, "replay_port": 0, "decode_s_per_token": 0.0}
    async with running(EngineConfig(**defaults | fields)) as bound:
        base = f"http://127.0.0.1:{bound.http}"
        async with aiohttp.ClientSession(base) as session:
            yield Client(session, bound)


def cached(answer: Any) -> int:
    return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])


def shape(value: Any) -> Any:
    """Keys in order and types of a JSON value, without what the values are."""
    if isinstance(value, dict):
        return [(key, shape(inner)) for key, inner in value.items()]
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__
