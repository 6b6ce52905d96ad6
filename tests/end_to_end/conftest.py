"""A fleet of real processes behind real Envoy."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import aiohttp
import pytest

from tests.support.ports import loopback_block
from tests.support.processes import (
    START_S,
    Fleet,
    endpoints_file,
    engine,
    router_and_envoy,
    tokenizer,
    until,
)


@asynccontextmanager
async def running_fleet(
    folder: Path,
    *,
    engines: int = 4,
    engine_flags: tuple[str, ...] = (),
    router_flags: tuple[str, ...] = (),
    full_duplex: bool = False,
) -> AsyncIterator[Fleet]:
    """Everything, ready to serve."""
    first = loopback_block()
    head, _, last = first.rpartition(".")
    hosts = [f"{head}.{int(last) + i}" for i in range(engines)]
    timeout = aiohttp.ClientTimeout(total=30)
    async with AsyncExitStack() as stack:
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        fleet = Fleet(folder, session)
        fleet.engines = [f"{host}:8000" for host in hosts]
        endpoints = endpoints_file(folder / "endpoints.json", fleet.engines)
        for host in hosts:
            await stack.enter_async_context(engine(fleet, host, *engine_flags))
        await stack.enter_async_context(tokenizer(fleet))
        await stack.enter_async_context(
            router_and_envoy(fleet, endpoints, *router_flags, full_duplex=full_duplex)
        )
        await until(fleet.undegraded, START_S)
        await until(fleet.answers, START_S)
        yield fleet


@pytest.fixture(params=[False, True], ids=["buffered", "full-duplex"])
def full_duplex(request: pytest.FixtureRequest) -> bool:
    """Both request body modes a gateway may use."""
    chosen: bool = request.param
    return chosen
