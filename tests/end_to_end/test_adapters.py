"""An adapter that only one engine has loaded is asked for only there, through real Envoy."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.end_to_end.conftest import running_fleet
from tests.support.processes import Fleet, until


async def _is_listed(fleet: Fleet, address: str, adapter: str) -> bool:
    endpoints = (await fleet.get("/debug/state"))["endpoints"]
    (models,) = [e["models"] for e in endpoints if e["address"] == address]
    return adapter in models["adapters"]


async def test_requests_for_an_adapter_reach_the_engine_that_loaded_it(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, engines=3) as fleet:
        loaded = fleet.engines[1]
        body = {"lora_name": "sql", "lora_path": "/adapters/sql"}
        url = f"http://{loaded}/v1/load_lora_adapter"
        async with fleet.session.post(url, json=body) as answer:
            assert answer.status == 200, await answer.text()
        await until(lambda: _is_listed(fleet, loaded, "sql"), 30)

        async def complete(model: str, number: int) -> int:
            prompt = {"model": model, "prompt": f"prompt {number} " * 9, "max_tokens": 2}
            async with fleet.session.post(f"{fleet.url}/v1/completions", json=prompt) as answer:
                await answer.read()
                return answer.status

        for model in ("sql", "tiny"):
            statuses = await asyncio.gather(*(complete(model, number) for number in range(12)))
            assert set(statuses) == {200}
        records = (await fleet.get("/debug/decisions?limit=24"))["decisions"]
        picked = {
            model: {r["endpoint"] for r in records if r["model"] == model}
            for model in ("sql", "tiny")
        }
        assert picked["sql"] == {loaded}
        assert picked["tiny"] == set(fleet.engines)
