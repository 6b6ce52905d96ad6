"""gRPC health of a router that runs: on both ports, as another implementation asks."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp
import grpc
import pytest
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from router.extproc.pb.health_pb2 import HealthListResponse
from tests.end_to_end.routers import router
from tests.support.ports import free_port
from tests.support.processes import Fleet, endpoints_file, until

EXT_PROC = "envoy.service.ext_proc.v3.ExternalProcessor"
SERVING, NOT_SERVING = 1, 2
READY = {"": SERVING, "liveness": SERVING, "readiness": SERVING, EXT_PROC: SERVING}
DRAINING = {**dict.fromkeys(READY, NOT_SERVING), "liveness": SERVING}


@asynccontextmanager
async def secured(port: int) -> AsyncIterator[grpc.aio.Channel]:
    """A channel that trusts nobody but who listens there."""
    shown = await asyncio.to_thread(ssl.get_server_certificate, ("127.0.0.1", port), timeout=10)
    trusted = grpc.ssl_channel_credentials(shown.encode())
    named = (("grpc.ssl_target_name_override", "warmroute"),)
    async with grpc.aio.secure_channel(f"127.0.0.1:{port}", trusted, named) as channel:
        yield channel


async def listed(channel: grpc.aio.Channel) -> Mapping[str, int]:
    call: Any = channel.unary_unary("/grpc.health.v1.Health/List")
    statuses = HealthListResponse.FromString(await call(b"", timeout=10)).statuses
    return {name: one.status for name, one in statuses.items()}


async def checked(channel: grpc.aio.Channel, service: str) -> int:
    stub: Any = HealthStub(channel)
    answer = await stub.Check(health_pb2.HealthCheckRequest(service=service), timeout=10)
    status: int = answer.status
    return status


async def unwatched(channel: grpc.aio.Channel) -> bool:
    stub: Any = HealthStub(channel)
    with pytest.raises(grpc.aio.AioRpcError) as refused:
        await stub.Watch(health_pb2.HealthCheckRequest(), timeout=10).read()
    return refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("flags", [(), ("--health-checking=false",)], ids=["default", "refused"])
async def test_both_ports_tell_how_the_router_is_until_it_ends(
    tmp_path: Path, flags: tuple[str, ...]
) -> None:
    health_port = free_port()
    async with aiohttp.ClientSession() as session:
        fleet = Fleet(tmp_path, session)
        endpoints_file(tmp_path / "endpoints.json", ["127.0.0.1:1"])
        flags = (*flags, f"--grpc-health-port={health_port}", "--drain-timeout=5s")
        async with (
            router(fleet, *flags),
            secured(fleet.grpc_port) as ext_proc,
            grpc.aio.insecure_channel(f"127.0.0.1:{health_port}") as alone,
        ):
            for channel in (ext_proc, alone):
                assert await listed(channel) == READY
                for service in (*READY, "inference-extension"):
                    assert await checked(channel, service) == SERVING
                assert await unwatched(channel)
            fleet.processes["router"].terminate()
            for channel in (ext_proc, alone):

                async def drains(channel: grpc.aio.Channel = channel) -> bool:
                    return await listed(channel) == DRAINING

                await until(drains, 1)
                assert await checked(channel, "inference-extension") == NOT_SERVING
                assert await checked(channel, "liveness") == SERVING
