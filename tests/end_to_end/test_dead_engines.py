"""An engine that never answered must not draw the traffic of those that work."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.end_to_end.conftest import running_fleet
from tests.support.ports import free_port, loopback_block
from tests.support.processes import endpoints_file, until


async def test_an_endpoint_where_nobody_listens_fails_a_handful_of_requests(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, engines=2) as fleet:
        dead = f"{loopback_block()}:{free_port()}"
        endpoints_file(tmp_path / "endpoints.json", [*fleet.engines, dead])

        async def listed() -> bool:
            state = await fleet.get("/debug/state")
            return dead in [endpoint["address"] for endpoint in state["endpoints"]]

        await until(listed)
        statuses: list[int] = []

        async def client(number: int) -> None:
            for turn in range(25):
                body = {"model": "tiny", "prompt": f"{number} {turn}", "max_tokens": 4}
                async with fleet.session.post(f"{fleet.url}/v1/completions", json=body) as answer:
                    statuses.append(answer.status)
                    await answer.read()

        await asyncio.gather(*(client(number) for number in range(4)))
        assert set(statuses) <= {200, 503}
        assert len(statuses) == 100
        assert statuses.count(503) <= 8
        degraded = (await fleet.get("/readyz"))["degraded"]
        assert f"endpoint {dead}: kept out, its last answers failed" in degraded
