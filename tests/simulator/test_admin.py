from __future__ import annotations

import asyncio
import json

import pytest

from tests.simulator.recordings import CAPTURES, samples
from tests.simulator.serving import cached, served, shape


@pytest.mark.parametrize("name", ["get/health", "get/ping", "get/version", "get/load"])
async def test_a_healthy_idle_engine_answers_as_recorded(name: str) -> None:
    sample = samples()[name]
    async with served() as client:
        assert await client.get(sample.path) == (200, sample.response)


async def test_models_are_listed_base_first_as_recorded() -> None:
    real = json.loads((CAPTURES / "models.json").read_text())
    paths = {"sql-lora": "scratch/tinylora/sql-lora", "chat-lora": "scratch/tinylora/chat-lora"}
    async with served(
        num_blocks=129,
        max_model_len=1024,
        adapters=tuple(f"{name}={path}" for name, path in paths.items()),
    ) as client:
        _, models = await client.get("/v1/models")
    assert shape(models) == shape(real)
    for field in ("id", "parent", "max_model_len", "owned_by"):
        assert [card[field] for card in models["data"]] == [card[field] for card in real["data"]]
    assert [card["root"] for card in models["data"][1:]] == list(paths.values())


async def test_event_sources_are_told_per_rank_with_the_real_ports() -> None:
    real = samples()["get/kv_event_sources"].response["0"]
    async with served(ranks=2) as client:
        _, sources = await client.get("/kv_event_sources")
        events, replays = client.bound.events, client.bound.replays
    assert list(sources) == ["0", "1"]
    for rank, source in enumerate(sources.values()):
        assert shape(source) == shape(real)
        assert source["endpoint"] == f"tcp://127.0.0.1:{events[rank]}"
        assert source["replay_endpoint"] == f"tcp://127.0.0.1:{replays[rank]}"
        assert source["topic"] == f"kv@127.0.0.1:{client.bound.http}@tiny"


async def test_an_engine_without_events_says_so() -> None:
    async with served(kv_events_port=None, replay_port=None) as client:
        _, sources = await client.get("/kv_event_sources")
    assert sources["0"]["enable_kv_cache_events"] is False
    assert sources["0"]["replay_endpoint"] is None


async def test_metrics_are_prometheus_text() -> None:
    async with served() as client, client.http.get("/metrics") as response:
        assert response.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
        assert "vllm:num_requests_running" in await response.text()


async def test_metrics_move_with_requests() -> None:
    async with served() as client:
        for _ in range(2):
            await client.complete(list(range(50)), max_tokens=4)
        assert await client.metric("prefix_cache_queries_total") == 100
        assert await client.metric("prefix_cache_hits_total") == 48
        assert await client.metric("generation_tokens_total") == 8
        assert await client.metric("time_to_first_token_seconds_count") == 2


async def test_a_reset_empties_the_cache_of_an_idle_engine() -> None:
    prompt = list(range(50))
    async with served() as client:
        await client.complete(prompt)
        assert await client.ok("/reset_prefix_cache", {}) == {"success": True}
        assert cached(await client.complete(prompt)) == 0


async def test_a_reset_is_refused_while_a_request_runs() -> None:
    async with served(decode_s_per_token=0.002) as client, asyncio.TaskGroup() as tasks:
        tasks.create_task(client.complete([5], max_tokens=200))
        await client.until_metric("num_requests_running", 1)
        assert await client.ok("/reset_prefix_cache", {}) == {"success": False}


async def test_adapters_come_and_go_as_recorded() -> None:
    async with served() as client:
        for name in ("lora-load", "lora-load-again", "lora-use", "lora-unload"):
            sample = samples()[name]
            status, answer = await client.post(sample.path, sample.body)
            assert status == sample.status
            if name != "lora-use":
                assert answer == sample.response
        sample = samples()["lora-use-unloaded"]
        assert await client.post(sample.path, sample.body) == (404, sample.response)
