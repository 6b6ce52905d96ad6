"""Data-parallel ranks behind one port, through real Envoy."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path

import aiohttp
import msgspec

from tests.support.ports import loopback_block
from tests.support.processes import (
    START_S,
    Fleet,
    engine,
    router_and_envoy,
    tokenizer,
    until,
)

PROMPT = "the second rank has read this before, and the first one has not " * 6


async def test_a_prompt_goes_to_the_rank_that_holds_it(tmp_path: Path) -> None:
    host = loopback_block()
    events = [{"endpoint": f"tcp://{host}:{5557 + rank}", "rank": rank} for rank in (0, 1)]
    entry = {"name": "e", "address": host, "port": 8000, "kvEvents": events}
    endpoints = tmp_path / "endpoints.json"
    endpoints.write_bytes(msgspec.json.encode({"endpoints": [entry]}))
    async with AsyncExitStack() as stack:
        timeout = aiohttp.ClientTimeout(total=30)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        fleet = Fleet(tmp_path, session)
        await stack.enter_async_context(engine(fleet, host, "--ranks=2"))
        await stack.enter_async_context(tokenizer(fleet))
        await stack.enter_async_context(router_and_envoy(fleet, endpoints))
        await until(fleet.undegraded, START_S)
        await until(fleet.answers, START_S)

        async def cached(**headers: str) -> int:
            body = {"model": "tiny", "prompt": PROMPT, "max_tokens": 1}
            named = {name.replace("_", "-"): value for name, value in headers.items()}
            url = f"{fleet.url}/v1/completions"
            async with session.post(url, json=body, headers=named) as response:
                answer = msgspec.json.decode(await response.read())
            return int(answer["usage"]["prompt_tokens_details"]["cached_tokens"])

        assert await cached(x_data_parallel_rank="1") == 0

        async def known() -> bool:
            match = await fleet.match({"model": "tiny", "prompt": PROMPT})
            ranks = match["endpoints"].get(f"{host}:8000", {}).get("ranks", {})
            return bool(ranks.get("1", {}).get("blocks"))

        await until(known)
        assert await cached() > 0
        # An idle engine by itself takes the first rank.
        assert await cached(x_data_parallel_rank="0") == 0
