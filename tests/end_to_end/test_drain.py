"""What a rolling restart sees: not ready at once, picks go on, open streams end intact."""

from __future__ import annotations

import asyncio
from pathlib import Path

from tests.end_to_end.conftest import running_fleet
from tests.support.processes import until

BODY = {"model": "tiny", "prompt": "one two three", "max_tokens": 100, "stream": True}


async def test_a_router_that_is_told_to_stop_drains(tmp_path: Path) -> None:
    flags = ("--drain-timeout=3s",)
    async with running_fleet(tmp_path, engines=1, router_flags=flags) as fleet:
        router = fleet.processes["router"]
        url = f"{fleet.url}/v1/completions"
        async with fleet.session.post(url, json=BODY) as stream:
            assert await stream.content.readline()
            router.terminate()

            async def unready() -> bool:
                async with fleet.session.get(f"{fleet.http}/readyz") as response:
                    return response.status == 503

            await until(unready, 2)
            async with fleet.session.get(f"{fleet.http}/healthz") as response:
                assert response.status == 200
            async with fleet.session.post(url, json={**BODY, "max_tokens": 2}) as picked:
                assert picked.status == 200
                assert (await picked.read()).endswith(b"data: [DONE]\n\n")
            assert (await stream.content.read()).endswith(b"data: [DONE]\n\n")
        async with asyncio.timeout(15):
            assert await router.wait() == 0
