"""Several endpoints for a request: Envoy takes the next one where one cannot be reached."""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp

from tests.end_to_end.test_bytes import JSON, chat_body
from tests.end_to_end.test_subsets import HEADER, with_hints
from tests.support.echo_engine import EchoEngine, echo_engine
from tests.support.ports import loopback_block
from tests.support.processes import Fleet, endpoints_file, router_and_envoy, until
from warmroute import eds

CONFIG = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - {type: active-request-scorer}
  - {type: inflight-load-producer}
  - {type: max-score-picker, parameters: {maxNumOfEndpoints: 3}}
"""


@asynccontextmanager
async def fallback_fleet(
    folder: Path, *, alive: int, dead: int, config: str = CONFIG
) -> AsyncIterator[tuple[Fleet, list[EchoEngine]]]:
    """Engines that answer and addresses where nobody is, behind an Envoy that takes lists."""
    head, _, last = loopback_block().rpartition(".")
    hosts = [f"{head}.{int(last) + i}" for i in range(alive + dead)]
    listed = folder / "eds" / "engines.json"
    listed.parent.mkdir()
    listed.write_bytes(eds.render((), 0))
    async with AsyncExitStack() as stack:
        engines = [await stack.enter_async_context(echo_engine(host)) for host in hosts[:alive]]
        timeout = aiohttp.ClientTimeout(total=30)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        fleet = Fleet(folder, session)
        fleet.engines = [f"{host}:8000" for host in hosts]
        await stack.enter_async_context(
            router_and_envoy(
                fleet,
                endpoints_file(folder / "endpoints.json", fleet.engines),
                f"--config-text={config}",
                f"--eds-file={listed}",
                envoy_settings={"eds_file": str(listed)},
                edit=with_hints,
            )
        )
        await until(fleet.reached)
        yield fleet, engines


async def test_every_request_is_answered_while_one_of_three_picks_is_there(tmp_path: Path) -> None:
    async with fallback_fleet(tmp_path, alive=1, dead=2) as (fleet, (engine,)):
        for _ in range(12):
            url = f"{fleet.url}/v1/chat/completions"
            async with fleet.session.post(url, data=chat_body(400), headers=JSON) as response:
                assert response.status == 200, await response.text()
                told = dict((await response.json())["headers"])
            named = told["x-gateway-destination-endpoint"].split(",")
            assert fleet.engines[0] in named
        assert len(engine.requests) == 12
        records = (await fleet.get("/debug/decisions?limit=100"))["decisions"]
        served = Counter(r["served"] or r["endpoint"] for r in records if r["kind"] == "chat")
        assert served == {fleet.engines[0]: 12}

        async def none_left() -> bool:
            return await fleet.metric("warmroute_inflight_requests") == 0

        await until(none_left)


async def test_nobody_answers_who_is_not_in_the_list(tmp_path: Path) -> None:
    async with fallback_fleet(tmp_path, alive=1, dead=2) as (fleet, (engine,)):
        url = f"{fleet.url}/v1/chat/completions"
        for allowed in (fleet.engines[1:2], fleet.engines[1:]):
            headers = {**JSON, HEADER: ",".join(allowed)}
            for _ in range(3):
                async with fleet.session.post(
                    url, data=chat_body(400), headers=headers
                ) as response:
                    assert response.status == 503
                    assert (await response.json())["error"]["type"] == "ServiceUnavailable"
        assert engine.requests == []


async def test_a_new_endpoint_is_reached_and_one_that_left_is_not(tmp_path: Path) -> None:
    async with fallback_fleet(tmp_path, alive=2, dead=0) as (fleet, engines):
        everybody = fleet.engines
        for kept in (0, 1):
            endpoints_file(tmp_path / "endpoints.json", [everybody[kept]])

            async def follows(address: str = everybody[kept]) -> bool:
                url = f"{fleet.url}/v1/chat/completions"
                async with fleet.session.post(url, data=chat_body(400), headers=JSON) as response:
                    told = dict((await response.json())["headers"])
                return bool(told["x-gateway-destination-endpoint"] == address)

            await until(follows)
            before = len(engines[kept].requests)
            for _ in range(6):
                assert await follows()
            assert len(engines[kept].requests) == before + 6
