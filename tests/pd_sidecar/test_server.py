from __future__ import annotations

import asyncio
from pathlib import Path

import aiohttp
import msgspec
import pytest

from pd_sidecar.allow import ListingError
from pd_sidecar.config import Config
from pd_sidecar.server import serve
from tests.pd_sidecar.fakes import DECODED, PREFILLED, FakeEngine, setup
from tests.support.ports import free_port


async def test_the_proxy_is_healthy_whatever_its_engine_is() -> None:
    engines = FakeEngine(PREFILLED), FakeEngine(DECODED)
    async with (
        setup(*engines, engine_port=free_port()) as fake,
        fake.session.get(f"{fake.url}/health") as response,
    ):
        assert response.status == 200
    assert fake.decode.seen == []


async def test_it_runs_until_told_to_stop() -> None:
    port, stop = free_port(), asyncio.Event()
    config = Config(host="127.0.0.1", port=port, open=True)

    ready = asyncio.Event()
    url = f"http://127.0.0.1:{port}/health"
    async with aiohttp.ClientSession() as session:
        async with asyncio.TaskGroup() as group:
            group.create_task(serve(config, ready.set, stop))
            await ready.wait()
            async with session.get(url) as response:
                assert response.status == 200
            stop.set()
        with pytest.raises(aiohttp.ClientConnectorError):
            await session.get(url)


async def test_engines_of_the_endpoints_file_may_be_called(tmp_path: Path) -> None:
    path = tmp_path / "endpoints.json"
    prefill, decode = FakeEngine(PREFILLED), FakeEngine(DECODED)
    path.write_bytes(b'{"endpoints": []}')
    async with setup(prefill, decode, open=False, endpoints=path) as fake:
        refused, _ = await fake.ask({"prompt": "x"})
        assert refused.status == 403
        entry = {
            "name": "p",
            "address": "127.0.0.1",
            "port": prefill.port,
            "labels": {"llm-d.ai/role": "prefill"},
        }
        path.write_bytes(msgspec.json.encode({"endpoints": [entry]}))
        for _ in range(200):
            response, _ = await fake.ask({"prompt": "x"})
            if response.status == 200:
                break
            await asyncio.sleep(0.02)
        assert response.headers["x-warmroute-prefill"] == "ok"


async def test_it_does_not_start_with_a_broken_file_or_a_taken_port(tmp_path: Path) -> None:
    path = tmp_path / "endpoints.json"
    path.write_bytes(b"{")
    ready, stop = lambda: None, asyncio.Event()
    with pytest.raises(ListingError):
        await serve(Config(endpoints=path), ready, stop)
    engine = FakeEngine(DECODED)
    async with engine.serving():
        taken = Config(host="127.0.0.1", port=engine.port, open=True)
        with pytest.raises(BaseException) as refused:  # noqa: PT011 - what is inside is looked at
            await serve(taken, ready, stop)
    found: BaseException = refused.value
    while isinstance(found, BaseExceptionGroup):
        found = found.exceptions[0]
    assert isinstance(found, OSError)
