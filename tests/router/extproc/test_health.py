from __future__ import annotations

from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2 as pb
from grpc_health.v1.health_pb2_grpc import HealthStub, add_HealthServicer_to_server

from router.extproc.health import Health


def _check(channel: grpc.aio.Channel) -> Any:
    return HealthStub(channel).Check  # type: ignore[attr-defined]  # its stubs list no methods


@pytest.mark.parametrize(
    ("service", "ready", "serving"),
    [
        ("", True, True),
        ("", False, False),
        ("inference-extension", True, True),
        ("envoy.service.ext_proc.v3.ExternalProcessor", False, False),
        ("readiness", False, False),
        ("liveness", False, True),
    ],
)
async def test_every_service_name_follows_readiness_but_liveness(
    service: str, ready: bool, serving: bool
) -> None:
    server = grpc.aio.server()
    add_HealthServicer_to_server(Health(lambda: ready), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        answer = await _check(channel)(pb.HealthCheckRequest(service=service))
    await server.stop(None)
    expected = pb.HealthCheckResponse.SERVING if serving else pb.HealthCheckResponse.NOT_SERVING
    assert answer.status == expected
