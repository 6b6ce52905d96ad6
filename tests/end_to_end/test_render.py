"""llm-d's own sample configuration, unchanged but for its addresses, with an engine as renderer."""

from __future__ import annotations

from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiohttp

from tests.support.ports import loopback_block
from tests.support.processes import (
    START_S,
    Fleet,
    endpoints_file,
    engine,
    router_and_envoy,
    until,
)

CONFIG = (
    Path(__file__).parents[1]
    / "captures"
    / "llm_d_configs"
    / "epp-precise-prefix-cache-config.yaml"
)


async def test_prompts_are_rendered_by_an_engine_and_find_their_prefix(tmp_path: Path) -> None:
    host = loopback_block()
    text = CONFIG.read_text().replace("http://localhost:8000", f"http://{host}:8000")
    config = tmp_path / "config.yaml"
    config.write_text(text.replace("hf-repo/model-name", "tiny").replace("64", "16"))
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession())
        fleet = Fleet(tmp_path, session)
        fleet.engines = [f"{host}:8000"]
        endpoints = endpoints_file(tmp_path / "endpoints.json", fleet.engines)
        await stack.enter_async_context(engine(fleet, host))
        await stack.enter_async_context(
            router_and_envoy(fleet, endpoints, f"--config-file={config}")
        )
        await until(fleet.undegraded, START_S)
        await until(fleet.answers, START_S)
        body = {
            "model": "tiny",
            "messages": [{"role": "user", "content": "one two three four five " * 30}],
            "max_tokens": 2,
        }
        for _ in range(2):
            async with session.post(f"{fleet.url}/v1/chat/completions", json=body) as response:
                assert response.status == 200
                usage = (await response.json())["usage"]

        def ended() -> list[Any]:
            chats = [event for event in fleet.ended() if event["kind"] == "chat"]
            return chats if len(chats) == 2 else []

        chats = await until(ended)
        assert chats[0]["predicted"] == 0
        cached = usage["prompt_tokens_details"]["cached_tokens"]
        assert cached > 100
        assert chats[1]["predicted"] == cached
