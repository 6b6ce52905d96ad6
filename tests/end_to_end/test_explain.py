"""One request through real processes is explained on the terminal, in a header and in metrics."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp

from tests.end_to_end.faulty import TEXT, ask, faulty_fleet
from tests.support.processes import Fleet, command


async def explained(fleet: Fleet, *arguments: str) -> str:
    """What the command prints."""
    asked = command("explain", f"--url={fleet.http}", *arguments)
    process = await asyncio.create_subprocess_exec(*asked, stdout=asyncio.subprocess.PIPE)
    output, _ = await process.communicate()
    assert process.returncode == 0
    return output.decode()


async def completed(fleet: Fleet, request_id: str) -> aiohttp.ClientResponse:
    """An answer to a client that asks for the decision, too."""
    headers = {"x-request-id": request_id, "x-warmroute-explain": "1"}
    body = {"model": "tiny", "prompt": TEXT, "max_tokens": 2}
    url = f"{fleet.url}/v1/completions"
    async with fleet.session.post(url, json=body, headers=headers) as response:
        await response.read()
        return response


async def refused(fleet: Fleet, request_id: str) -> aiohttp.ClientResponse:
    """The answer to a body that cannot be read, of a client that asks why."""
    headers = {"x-request-id": request_id, "x-warmroute-explain": "1"}
    headers["content-type"] = "application/json"
    url = f"{fleet.url}/v1/completions"
    async with fleet.session.post(url, data=b"{", headers=headers) as response:
        assert response.status == 400
        return response


async def test_a_decision_is_explained_wherever_somebody_looks(tmp_path: Path) -> None:
    flags = ("--explain-header", "--legacy-metric-names", "--pool-name=mine")
    async with faulty_fleet(tmp_path, engines=2, router_flags=flags) as fleet:
        await ask(fleet, TEXT)
        decision = (await completed(fleet, "why")).headers["x-warmroute-decision"]
        told = dict(part.split("=") for part in decision.split("; "))
        assert told["endpoint"] in fleet.engines
        assert int(told["cached"]) > 0
        assert told["id"] == "why"
        refusal = await refused(fleet, "why-not")
        assert refusal.headers["x-warmroute-decision"].startswith("refused=400; took-ms=")
        assert "refused with 400: cannot read" in await explained(fleet, "why-not")
        whole = await explained(fleet, "why")
        assert f"picks {told['endpoint']}" in whole
        assert f"{told['cached']} tokens expected from the cache" in whole
        assert all(engine in whole for engine in fleet.engines)
        assert "why" in await explained(fleet)
        record = await fleet.get("/debug/decisions/why")
        stages = ["parse", "token-producer", "precise-prefix-cache-producer"]
        assert [*record["times_ms"]][:3] == stages
        assert sum(record["times_ms"].values()) <= record["took_ms"] + 1
        assert await fleet.metric("inference_objective_request_total", model_name="tiny") == 2
        async with fleet.session.get(f"{fleet.http}/metrics") as page:
            assert 'inference_pool_ready_pods{name="mine"} 2.0' in await page.text()
        plugin = {"extension_point": "Scorer", "plugin_type": "queue-scorer"}
        assert await fleet.metric("llm_d_epp_plugin_duration_seconds_count", **plugin) >= 2
        picked = "llm_d_epp_scheduler_attempts_total"
        assert await fleet.metric(picked, status="success", target_model_name="tiny") == 2
        assert await fleet.metric("warmroute_match_tokens_count") >= 1
        log = fleet.log.read_text()
        assert "Explain in plain words" not in log + str(record)


async def test_nothing_is_told_in_a_header_unless_a_flag_opens_it(tmp_path: Path) -> None:
    async with faulty_fleet(tmp_path) as fleet:
        assert "x-warmroute-decision" not in (await completed(fleet, "why")).headers
        assert await fleet.metric("inference_objective_request_total") == 0
