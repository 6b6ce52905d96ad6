"""ext_proc on a Unix socket, for an Envoy on the same machine."""

from __future__ import annotations

import asyncio
import socket
import stat
from pathlib import Path
from typing import Any

import aiohttp
import grpc
from grpc_health.v1 import health_pb2
from grpc_health.v1.health_pb2_grpc import HealthStub

from tests.end_to_end.routers import router
from tests.support.ports import free_port
from tests.support.processes import Fleet, command, endpoints_file


async def serves(target: str) -> bool:
    async with grpc.aio.insecure_channel(target) as channel:
        stub: Any = HealthStub(channel)
        answer = await stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
        return bool(answer.status == health_pb2.HealthCheckResponse.SERVING)


async def test_a_router_serves_on_its_socket_beside_its_port_until_it_ends(tmp_path: Path) -> None:
    path = tmp_path / "router.sock"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))  # a process that was killed leaves this
    async with aiohttp.ClientSession() as session:
        fleet = Fleet(tmp_path, session)
        endpoints_file(tmp_path / "endpoints.json", ["127.0.0.1:1"])
        async with router(fleet, f"--grpc-socket={path}", "--secure-serving=false"):
            assert await serves(f"unix:{path}")
            assert await serves(f"127.0.0.1:{fleet.grpc_port}")
            assert stat.S_IMODE(path.stat().st_mode) == 0o660
            second = command(
                "serve",
                "--bind-address=127.0.0.1",
                *(f"--{name}-port={free_port()}" for name in ("grpc", "grpc-health", "metrics")),
                f"--endpoints={tmp_path / 'endpoints.json'}",
                f"--grpc-socket={path}",
            )
            process = await asyncio.create_subprocess_exec(*second, stderr=asyncio.subprocess.PIPE)
            async with asyncio.timeout(60):
                _, said = await process.communicate()
            assert process.returncode == 1
            assert f"{path}: another process is listening there" in said.decode()
            assert await serves(f"unix:{path}")
            fleet.processes["router"].terminate()
            async with asyncio.timeout(30):
                assert await fleet.processes["router"].wait() == 0
    assert not path.exists()
