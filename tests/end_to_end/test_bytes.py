"""What passes Envoy and the router must arrive as it was sent, and steer nothing it may not."""

from __future__ import annotations

import asyncio
import hashlib
import io
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from types import MappingProxyType
from typing import Any

import aiohttp
import pytest

from tests.support.echo_engine import EchoEngine, echo_engine
from tests.support.ports import free_port, loopback_block
from tests.support.processes import (
    START_S,
    Fleet,
    endpoints_file,
    router_and_envoy,
    tokenizer,
    until,
)

JSON = {"content-type": "application/json"}
SIZES = (1, 2, 15_999, 16_384, 65_535, 65_536, 65_537, 131_073, 524_289, 1_048_577, 4_194_304)


@asynccontextmanager
async def echo_fleet(
    folder: Path,
    *,
    full_duplex: bool,
    max_body_bytes: int = 64 * 1024 * 1024,
    secure: bool = False,
    router_flags: tuple[str, ...] = (),
    envoy_settings: Mapping[str, Any] = MappingProxyType({}),
    edit: Callable[[Any], None] | None = None,
) -> AsyncIterator[tuple[Fleet, EchoEngine]]:
    """One echoing engine behind everything else."""
    host = loopback_block()
    timeout = aiohttp.ClientTimeout(total=30)
    async with AsyncExitStack() as stack:
        engine = await stack.enter_async_context(echo_engine(host))
        session = await stack.enter_async_context(aiohttp.ClientSession(timeout=timeout))
        fleet = Fleet(folder, session)
        fleet.engines = [f"{host}:8000"]
        endpoints = endpoints_file(folder / "endpoints.json", fleet.engines)
        await stack.enter_async_context(tokenizer(fleet))
        await stack.enter_async_context(
            router_and_envoy(
                fleet,
                endpoints,
                *router_flags,
                envoy_settings=envoy_settings,
                edit=edit,
                full_duplex=full_duplex,
                max_body_bytes=max_body_bytes,
                secure=secure,
            )
        )
        await until(fleet.undegraded, START_S)
        await until(fleet.answers, START_S)
        yield fleet, engine


def chat_body(size: int) -> bytes:
    """A legal chat of exactly `size` bytes, with whitespace and text no encoder would write."""
    head, tail = b'{ "model" :"tiny","messages":[ {"role":"user","content":"\\u00e9', b'"}]\n }'
    return head + b"x" * (size - len(head) - len(tail)) + tail


async def in_pieces(body: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(body), 50_000):
        yield body[start : start + 50_000]


async def test_bodies_arrive_byte_for_byte(tmp_path: Path, full_duplex: bool) -> None:
    async with echo_fleet(tmp_path, full_duplex=full_duplex) as (fleet, _):
        for size in SIZES:
            bodies = [("/anything", os.urandom(size))]
            if size > 200:
                bodies.append(("/v1/chat/completions", chat_body(size)))
            for path, body in bodies:
                for sent in (io.BytesIO(body), in_pieces(body)):
                    async with fleet.session.post(
                        f"{fleet.url}{path}", data=sent, headers=JSON
                    ) as response:
                        assert response.status == 200, await response.text()
                        told = await response.json()
                    assert told["size"] == size
                    assert told["sha256"] == hashlib.sha256(body).hexdigest()


async def test_a_body_above_the_cap_is_refused_in_the_openai_shape(
    tmp_path: Path, full_duplex: bool
) -> None:
    cap = 100_000
    async with echo_fleet(tmp_path, full_duplex=full_duplex, max_body_bytes=cap) as (fleet, engine):
        url = f"{fleet.url}/v1/chat/completions"
        async with fleet.session.post(url, data=chat_body(cap), headers=JSON) as response:
            assert response.status == 200
        async with fleet.session.post(url, data=chat_body(cap + 1), headers=JSON) as response:
            assert response.status == 413
            assert (await response.json())["error"]["code"] == 413
        assert len(engine.requests) == 1
        name = "llm_d_epp_request_error_total"
        assert await fleet.metric(name, error_code="RequestEntityTooLarge") == 1
        (record, *_) = (await fleet.get("/debug/decisions?limit=1"))["decisions"]
        assert (record["kind"], record["endpoint"]) == ("chat", None)
        assert "exceeds" in record["refused"]


async def test_events_arrive_as_the_engine_sent_them_and_count_until_the_last_byte(
    tmp_path: Path, full_duplex: bool
) -> None:
    async with echo_fleet(tmp_path, full_duplex=full_duplex) as (fleet, engine):

        async def in_flight() -> float:
            return await fleet.metric("warmroute_inflight_requests")

        request = fleet.session.post(
            f"{fleet.url}/v1/chat/completions",
            data=chat_body(400),
            headers={**JSON, "x-test": "stream"},
        )
        sent = [f'data: {{"n":{n}}}\n\n'.encode() for n in range(20)] + [b"data: [DONE]\n\n"]
        engine.chunks.put_nowait(sent[0])
        async with request as response:
            assert response.headers["content-type"] == "text/event-stream"
            assert "content-length" not in response.headers
            got = await response.content.readany()
            for chunk in sent[1:]:
                assert await in_flight() == 1
                engine.chunks.put_nowait(chunk)
                got += await response.content.readany()
            engine.chunks.put_nowait(None)
            got += await response.content.read()
        assert got == b"".join(sent)

        async def none_left() -> bool:
            return await in_flight() == 0

        await until(none_left)


async def test_a_client_that_leaves_is_counted_out_and_the_engine_hears_of_it(
    tmp_path: Path, full_duplex: bool
) -> None:
    async with echo_fleet(tmp_path, full_duplex=full_duplex) as (fleet, engine):
        engine.chunks.put_nowait(b"data: 1\n\n")
        async with fleet.session.post(
            f"{fleet.url}/v1/chat/completions",
            data=chat_body(400),
            headers={**JSON, "x-test": "stream"},
        ) as response:
            await response.content.readany()
            assert await fleet.metric("warmroute_inflight_requests") == 1
            response.close()

        async def gone() -> bool:
            return await fleet.metric("warmroute_inflight_requests") == 0 and engine.aborted == 1

        await until(gone)
        assert await fleet.metric("warmroute_streams_open") == 0


async def test_envoy_reaches_a_router_that_speaks_tls(tmp_path: Path) -> None:
    async with echo_fleet(tmp_path, full_duplex=False, secure=True) as (fleet, _):
        url = f"{fleet.url}/v1/chat/completions"
        async with fleet.session.post(url, data=chat_body(400), headers=JSON) as response:
            assert response.status == 200


class Canary:
    """A listener nobody should ever reach."""

    def __init__(self) -> None:
        self.connections = 0
        self.address = ""

    async def __aenter__(self) -> Canary:
        host = loopback_block()
        self._server = await asyncio.start_server(self._reached, host, 0)
        port = self._server.sockets[0].getsockname()[1]
        self.address = f"{host}:{port}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    def _reached(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        writer.close()


@pytest.mark.parametrize("method", ["POST", "GET"])
async def test_client_sent_routing_headers_reach_nobody(
    tmp_path: Path, full_duplex: bool, method: str
) -> None:
    async with echo_fleet(tmp_path, full_duplex=full_duplex) as (fleet, _), Canary() as canary:
        steering = [
            ("X-Gateway-Destination-Endpoint", canary.address),
            ("x-gateway-destination-endpoint", f"{canary.address},{canary.address}"),
            ("X-Prefiller-Host-Port", canary.address),
            ("x-encoder-hosts-ports", canary.address),
            ("X-Data-Parallel-Host-Port", canary.address),
            ("x-slo-ttft-ms", "5"),
            ("X-Request-Id", "mine-7"),
            ("Prefer", "respond-async"),
        ]
        path = "/v1/chat/completions" if method == "POST" else "/v1/other"
        data = chat_body(400) if method == "POST" else None
        async with fleet.session.request(
            method, f"{fleet.url}{path}", data=data, headers=[*steering, *JSON.items()]
        ) as response:
            assert response.status == 200, await response.text()
            told = (await response.json())["headers"]
        got = [(name.lower(), value) for name, value in told]
        destinations = [value for name, value in got if name == "x-gateway-destination-endpoint"]
        assert destinations == fleet.engines
        names = {name for name, _ in got}
        assert not names & {"x-prefiller-host-port", "x-encoder-hosts-ports", "x-slo-ttft-ms"}
        assert ("x-request-id", "mine-7") in got
        assert ("prefer", "respond-async") in got
        assert canary.connections == 0


async def test_a_dead_router_lets_no_client_choose_an_engine(tmp_path: Path) -> None:
    async with echo_fleet(tmp_path, full_duplex=False) as (fleet, _), Canary() as canary:
        fleet.kill("router")
        await fleet.processes["router"].wait()
        async with fleet.session.post(
            f"{fleet.url}/v1/chat/completions",
            data=chat_body(400),
            headers={**JSON, "x-gateway-destination-endpoint": canary.address},
        ) as response:
            assert response.status == 503
            assert (await response.json())["error"]["code"] == 503
        assert canary.connections == 0


async def test_an_engine_that_is_gone_is_an_error_in_the_openai_shape(tmp_path: Path) -> None:
    async with echo_fleet(tmp_path, full_duplex=False) as (fleet, _):
        endpoints_file(tmp_path / "endpoints.json", [f"{loopback_block()}:{free_port()}"])

        async def moved() -> bool:
            state = await fleet.get("/debug/state")
            return [e["address"] for e in state["endpoints"]] != fleet.engines

        await until(moved)
        url = f"{fleet.url}/v1/chat/completions"
        async with fleet.session.post(url, data=chat_body(400), headers=JSON) as response:
            assert response.status == 503
            error = (await response.json())["error"]
        assert (error["code"], error["type"]) == (503, "ServiceUnavailable")
        assert "no answer from the model server" in error["message"]


async def test_requests_without_a_body_and_unknown_paths_reach_an_engine(
    tmp_path: Path, full_duplex: bool
) -> None:
    async with echo_fleet(tmp_path, full_duplex=full_duplex) as (fleet, engine):
        for method in ("GET", "HEAD", "OPTIONS", "DELETE"):
            async with fleet.session.request(method, f"{fleet.url}/v1/things?x=1") as response:
                assert response.status == 200
        assert [request.method for request in engine.requests] == [
            "GET",
            "HEAD",
            "OPTIONS",
            "DELETE",
        ]
        url = f"{fleet.url}/v1/chat/completions"
        async with fleet.session.post(url, data=b"", headers=JSON) as response:
            assert response.status == 400
            assert (await response.json())["error"]["type"] == "BadRequestError"
