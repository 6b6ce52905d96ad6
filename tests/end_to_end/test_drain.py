"""What a rolling restart sees: not ready at once, picks go on, open streams end intact."""

from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import pytest

from tests.end_to_end.conftest import running_fleet
from tests.end_to_end.test_bytes import JSON, chat_body, echo_fleet
from tests.support.processes import Fleet, until

BODY = {"model": "tiny", "prompt": "one two three", "max_tokens": 100, "stream": True}


async def unready(fleet: Fleet) -> bool:
    async with fleet.session.get(f"{fleet.http}/readyz") as response:
        return response.status == 503


async def test_a_router_that_is_told_to_stop_drains(tmp_path: Path) -> None:
    flags = ("--drain-timeout=3s",)
    async with running_fleet(tmp_path, engines=1, router_flags=flags) as fleet:
        router = fleet.processes["router"]
        url = f"{fleet.url}/v1/completions"
        async with fleet.session.post(url, json=BODY) as stream:
            assert await stream.content.readline()
            router.terminate()
            await until(lambda: unready(fleet), 2)
            router.terminate()
            async with fleet.session.get(f"{fleet.http}/healthz") as response:
                assert response.status == 200
            async with fleet.session.post(url, json={**BODY, "max_tokens": 2}) as picked:
                assert picked.status == 200
                assert (await picked.read()).endswith(b"data: [DONE]\n\n")
            assert (await stream.content.read()).endswith(b"data: [DONE]\n\n")
        async with asyncio.timeout(15):
            assert await router.wait() == 0


@pytest.mark.parametrize("sample", [0, 1], ids=["unread", "read"])
async def test_answers_outlive_the_router(tmp_path: Path, full_duplex: bool, sample: int) -> None:
    flags = (f"--usage-sample={sample}", "--drain-timeout=0s")
    async with echo_fleet(tmp_path, full_duplex=full_duplex, router_flags=flags) as (fleet, engine):
        streams = 20
        for _ in range(streams):
            engine.chunks.put_nowait(b"data: 1\n\n")

        async def stream() -> bytes:
            async with fleet.session.post(
                f"{fleet.url}/v1/chat/completions",
                data=chat_body(400),
                headers={**JSON, "x-test": "stream"},
            ) as response:
                return await response.read()

        async with asyncio.TaskGroup() as group:
            answers = [group.create_task(stream()) for _ in range(streams)]

            async def all_open() -> bool:
                return await fleet.metric("warmroute_inflight_requests") == streams

            await until(all_open)
            await until(engine.chunks.empty)
            router = fleet.processes["router"]
            router.terminate()
            async with asyncio.timeout(10):
                assert await router.wait() == 0
            for _ in range(streams):
                engine.chunks.put_nowait(b"data: 2\n\n")
            await until(engine.chunks.empty)
            for _ in range(streams):
                engine.chunks.put_nowait(None)
        # Whichever answer a chunk became part of: none is lost, and every answer came to its end.
        got = b"".join(answer.result() for answer in answers)
        assert sorted(got.split(b"\n\n")[:-1]) == [b"data: 1"] * streams + [b"data: 2"] * streams
        with pytest.raises(aiohttp.ClientError):
            await unready(fleet)
