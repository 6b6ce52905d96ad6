"""A filter before the router's says which endpoints a request may go to."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.end_to_end.test_bytes import JSON, chat_body
from tests.support.echo_engine import echo_engine
from tests.support.ports import loopback_block
from tests.support.processes import Fleet, endpoints_file, router_and_envoy, until

HEADER = "x-tenant-endpoints"


def with_hints(bootstrap: Any) -> None:
    """A header becomes the hint, as a gateway's own filter would make it."""
    (listener,) = bootstrap["staticResources"]["listeners"]
    manager = listener["filterChains"][0]["filters"][0]["typedConfig"]
    name = "envoy.extensions.filters.http.header_to_metadata.v3.Config"
    hint = {
        "metadataNamespace": "envoy.lb.subset_hint",
        "key": "x-gateway-destination-endpoint-subset",
    }
    rule = {"header": HEADER, "onHeaderPresent": hint, "remove": True}
    config = {"@type": f"type.googleapis.com/{name}", "requestRules": [rule]}
    manager["httpFilters"].insert(0, {"name": "hints", "typedConfig": config})


@asynccontextmanager
async def hinted_fleet(folder: Path, *, full_duplex: bool) -> AsyncIterator[Fleet]:
    head, _, last = loopback_block().rpartition(".")
    hosts = [f"{head}.{int(last) + i}" for i in range(3)]
    async with AsyncExitStack() as stack:
        for host in hosts:
            await stack.enter_async_context(echo_engine(host))
        timeout = aiohttp.ClientTimeout(total=30)
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        fleet = Fleet(folder, session)
        fleet.engines = [f"{host}:8000" for host in hosts]
        endpoints = endpoints_file(folder / "endpoints.json", fleet.engines)
        await stack.enter_async_context(
            router_and_envoy(fleet, endpoints, full_duplex=full_duplex, edit=with_hints)
        )
        await until(fleet.answers)
        yield fleet


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_a_request_goes_only_where_it_is_allowed(
    tmp_path: Path, full_duplex: bool, method: str
) -> None:
    async with hinted_fleet(tmp_path, full_duplex=full_duplex) as fleet:
        path = "/v1/chat/completions" if method == "POST" else "/v1/other"
        data = chat_body(400) if method == "POST" else None

        async def send(hint: str) -> tuple[int, str, str]:
            async with fleet.session.request(
                method, f"{fleet.url}{path}", data=data, headers={**JSON, HEADER: hint}
            ) as response:
                reason = response.headers.get("x-llm-d-request-dropped-reason", "")
                if response.status != 200:
                    return response.status, "", reason
                told = dict((await response.json())["headers"])
                return 200, told["x-gateway-destination-endpoint"], reason

        second, third = fleet.engines[1], fleet.engines[2]
        for _ in range(4):
            assert await send(second) == (200, second, "")
            assert await send(third.partition(":")[0]) == (200, third, "")
            assert (await send(f"{second}, {third}"))[1] in (second, third)
        assert await send("192.0.2.1:8000") == (503, "", "rejected-no-endpoints")
        assert await send(second.replace(":8000", ":8001")) == (503, "", "rejected-no-endpoints")
