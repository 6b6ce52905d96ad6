"""Prefill and decode on engines apart, through real Envoy: the stages, and each way they fail."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import msgspec

from router.config.builtin import BUILTIN_PD
from tests.support.ports import loopback_block
from tests.support.processes import (
    START_S,
    Fleet,
    command,
    engine,
    process,
    router_and_envoy,
    tokenizer,
    until,
)
from warmroute.simulated import Engine, endpoints_file

PORT, BEHIND = 8000, 8200


def prompt(number: int, words: int = 200) -> str:
    return f"{number} " + "the prompt is long and nobody has seen it " * (words // 9)


class PdFleet(Fleet):
    """Engines that prefill, and engines that decode behind sidecars.

    Attributes:
        prefills: Addresses of the former.
        decodes: Addresses of the latter's sidecars.
    """

    prefills: list[str]
    decodes: list[str]

    async def complete(self, text: str, **fields: Any) -> tuple[Any, Any]:
        """The answer and the router's record of it."""
        body = {"model": "tiny", "prompt": text, "max_tokens": 4, **fields}
        url, request_id = f"{self.url}/v1/completions", uuid.uuid4().hex
        headers = {"x-request-id": request_id}
        async with self.session.post(url, json=body, headers=headers) as response:
            answer = msgspec.json.decode(await response.read())
            assert response.status == 200, answer
            assert "x-warmroute-prefill" not in response.headers
        return answer, await self.get(f"/debug/decisions/{request_id}")

    async def has_in_flight(self, count: int) -> bool:
        """So many requests are under way, counted at each engine that works on them."""
        state = await self.get("/debug/state")
        return bool(sum(endpoint["in_flight"] for endpoint in state["endpoints"]) == count)

    async def prefilled(self, address: str) -> float:
        """Prompt tokens an engine has computed so far."""
        async with self.session.get(f"http://{address}/metrics") as response:
            for line in (await response.text()).splitlines():
                if line.startswith("vllm:prompt_tokens_total{"):
                    return float(line.rpartition(" ")[2])
        raise AssertionError(address)


@asynccontextmanager
async def pd_fleet(
    folder: Path, *, prefills: int = 2, config: str = BUILTIN_PD
) -> AsyncIterator[PdFleet]:
    head, _, last = loopback_block().rpartition(".")
    hosts = [f"{head}.{int(last) + i}" for i in range(prefills + 1)]
    engines = [Engine(host, PORT, "prefill") for host in hosts[:prefills]]
    engines.append(Engine(hosts[-1], PORT, "decode"))
    endpoints = folder / "endpoints.yaml"
    endpoints.write_bytes(endpoints_file(engines))
    (folder / "config.yaml").write_text(config)
    async with AsyncExitStack() as stack:
        timeout = aiohttp.ClientTimeout(total=30)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        fleet = PdFleet(folder, session)
        fleet.prefills = [f"{host}:{PORT}" for host in hosts[:prefills]]
        fleet.decodes = [f"{hosts[-1]}:{PORT}"]
        for one in engines:
            started = engine(fleet, one.host, "--kv-transfer", port=one.own_port)
            await stack.enter_async_context(started)
        sidecar = command(
            "pd-sidecar",
            f"--host={hosts[-1]}",
            f"--model-server-host={hosts[-1]}",
            f"--endpoints={endpoints}",
        )
        await stack.enter_async_context(process(sidecar, folder / "sidecar.log"))
        await stack.enter_async_context(tokenizer(fleet))
        flag = f"--config-file={folder / 'config.yaml'}"
        await stack.enter_async_context(router_and_envoy(fleet, endpoints, flag))
        await until(fleet.undegraded, START_S)
        await until(fleet.answers, START_S)
        yield fleet


async def test_a_prompt_is_prefilled_apart_and_answered_from_the_cache_next_time(
    tmp_path: Path,
) -> None:
    async with pd_fleet(tmp_path) as fleet:
        text = prompt(1)
        first, record = await fleet.complete(text)
        assert record["endpoint"] == fleet.decodes[0]
        assert record["stages"] == "prefill-decode"
        assert record["prefill"]["endpoints"][0] in fleet.prefills
        assert record["prefill_result"] == "ok"
        assert await fleet.prefilled(record["prefill"]["endpoints"][0]) > 100
        tokens = first["usage"]["prompt_tokens"]

        async def decode_holds() -> bool:
            match = await fleet.match({"model": "tiny", "prompt": text})
            held = match["endpoints"].get(fleet.decodes[0], {}).get("blocks", 0)
            return bool(held == tokens // 16)

        await until(decode_holds)
        second, record = await fleet.complete(text)
        assert (record["stages"], record["prefill"]) == ("decode-only", None)
        assert second["choices"][0]["text"] == first["choices"][0]["text"]
        assert second["usage"]["prompt_tokens_details"]["cached_tokens"] > 0.9 * tokens
        stages = "llm_d_epp_disagg_decision_total"
        assert await fleet.metric(stages, decision_type="prefill-decode") == 1
        assert await fleet.metric(stages, decision_type="decode-only") >= 1


async def test_a_streamed_answer_tells_what_the_prefill_engine_had_cached(tmp_path: Path) -> None:
    async with pd_fleet(tmp_path, prefills=1) as fleet:
        body = {
            "model": "tiny",
            "messages": [{"role": "user", "content": prompt(2)}],
            "max_tokens": 4,
            "stream": True,
            "stream_options": {"include_usage": True},
        }
        url = f"{fleet.url}/v1/chat/completions"
        async with fleet.session.post(url, json=body) as response:
            text = (await response.read()).decode()
        events = [line.removeprefix("data: ") for line in text.splitlines() if line]
        assert events[-1] == "[DONE]"
        usage = msgspec.json.decode(events[-2])["usage"]
        assert usage["prompt_tokens_details"]["cached_tokens"] == 0
        assert usage["completion_tokens"] == 4


async def test_a_killed_prefill_engine_costs_no_request_and_is_left_alone(tmp_path: Path) -> None:
    async with pd_fleet(tmp_path) as fleet:
        dead, alive = fleet.prefills
        fleet.kill(dead.partition(":")[0])
        results = []
        for number in range(24):
            _, record = await fleet.complete(prompt(100 + number))
            results.append((record["prefill"]["endpoints"][0], record["prefill_result"]))
        assert results.count((dead, "failed")) <= 3
        assert set(results[-6:]) == {(alive, "ok")}
        fleet.kill(alive.partition(":")[0])
        answer, record = await fleet.complete(prompt(200))
        assert record["prefill_result"] in ("failed", None)
        assert answer["choices"][0]["text"]
        state = await fleet.get("/debug/state")
        assert state["streams"]["failed"] == 0


async def test_without_a_prefill_endpoint_long_prompts_are_refused(tmp_path: Path) -> None:
    async with pd_fleet(tmp_path, prefills=0) as fleet:
        body = {"model": "tiny", "prompt": prompt(3), "max_tokens": 1}
        async with fleet.session.post(f"{fleet.url}/v1/completions", json=body) as response:
            assert response.status == 503
            reason = response.headers["x-llm-d-request-dropped-reason"]
        assert reason == "rejected-no-endpoints"
        _, record = await fleet.complete("short")
        assert record["stages"] == "decode-only"
        stages = "llm_d_epp_disagg_decision_total"
        assert await fleet.metric(stages, decision_type="no-prefill") == 1
        assert await fleet.prefilled(fleet.decodes[0]) < 50


async def test_a_client_that_leaves_during_prefill_leaves_nothing_in_flight(
    tmp_path: Path,
) -> None:
    async with pd_fleet(tmp_path, prefills=1) as fleet:
        body = {"model": "tiny", "prompt": prompt(4, 80_000), "max_tokens": 1}
        async with asyncio.TaskGroup() as group:
            asking = group.create_task(_post(fleet, body))
            await until(lambda: fleet.has_in_flight(2))
            asking.cancel()
        await until(lambda: fleet.has_in_flight(0))


async def _post(fleet: Fleet, body: Any) -> None:
    async with fleet.session.post(f"{fleet.url}/v1/completions", json=body) as response:
        await response.read()
