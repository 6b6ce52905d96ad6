"""Health checks as other people's clients ask, and as bytes on the wire."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2 as theirs
from grpc_health.v1.health_pb2_grpc import HealthStub

from router.extproc.health import Health, add_to_server
from router.extproc.pb import ext_proc_pb2, health_pb2

EXT_PROC = "envoy.service.ext_proc.v3.ExternalProcessor"
SERVING, NOT_SERVING = theirs.HealthCheckResponse.SERVING, theirs.HealthCheckResponse.NOT_SERVING


@asynccontextmanager
async def asking(*, ready: bool) -> AsyncIterator[grpc.aio.Channel]:
    """A channel to a server of which nothing but health is served."""
    server = grpc.aio.server()
    add_to_server(Health(lambda: ready), server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(None)


def stub(channel: grpc.aio.Channel) -> Any:
    return HealthStub(channel)


async def listed(channel: grpc.aio.Channel) -> bytes:
    """The answer to `List`, as it comes over the wire."""
    call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes]
    call = channel.unary_unary("/grpc.health.v1.Health/List")
    return await call(b"")


@pytest.mark.parametrize(
    ("service", "ready", "serving"),
    [
        ("", True, True),
        ("", False, False),
        ("inference-extension", True, True),
        (EXT_PROC, False, False),
        ("readiness", False, False),
        ("liveness", False, True),
    ],
)
async def test_every_service_name_follows_readiness_but_liveness(
    service: str, ready: bool, serving: bool
) -> None:
    async with asking(ready=ready) as channel:
        answer = await stub(channel).Check(theirs.HealthCheckRequest(service=service))
    assert answer.status == (SERVING if serving else NOT_SERVING)


@pytest.mark.parametrize(
    ("ready", "statuses"),
    [
        (True, {"": 1, "liveness": 1, "readiness": 1, EXT_PROC: 1}),
        (False, {"": 2, "liveness": 1, "readiness": 2, EXT_PROC: 2}),
    ],
    ids=["ready", "not ready"],
)
async def test_the_names_that_are_known_are_listed(
    ready: bool, statuses: Mapping[str, int]
) -> None:
    async with asking(ready=ready) as channel:
        answer = await listed(channel)
    # By hand, as gRPC publishes it: statuses = 1, each with key = 1 and value = 2 {status = 1}.
    entries = {
        bytes((10, len(key) + 6, 10, len(key))) + key.encode() + bytes((18, 2, 8, status))
        for key, status in statuses.items()
    }
    assert len(answer) == sum(map(len, entries))
    assert all(entry in answer for entry in entries)
    told = health_pb2.HealthListResponse.FromString(answer).statuses
    assert {name: one.status for name, one in told.items()} == statuses


async def test_each_status_listed_is_what_a_check_says() -> None:
    async with asking(ready=False) as channel:
        told = health_pb2.HealthListResponse.FromString(await listed(channel))
        for name, one in told.statuses.items():
            checked = await stub(channel).Check(theirs.HealthCheckRequest(service=name))
            assert checked.status == one.status, name


async def test_watching_is_not_offered() -> None:
    async with asking(ready=True) as channel:
        call = stub(channel).Watch(theirs.HealthCheckRequest())
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await call.read()
    assert refused.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_our_messages_are_those_of_grpc() -> None:
    for ours, published in (
        (health_pb2.HealthCheckRequest, theirs.HealthCheckRequest),
        (health_pb2.HealthCheckResponse, theirs.HealthCheckResponse),
    ):
        told = [(f.name, f.number, f.type) for f in ours.DESCRIPTOR.fields]
        assert told == [(f.name, f.number, f.type) for f in published.DESCRIPTOR.fields]
    statuses = health_pb2.HealthCheckResponse.ServingStatus.items()
    assert statuses == theirs.HealthCheckResponse.ServingStatus.items()


def test_the_processor_is_known_by_the_name_it_is_called_by() -> None:
    (service,) = ext_proc_pb2.DESCRIPTOR.services_by_name.values()
    assert service.full_name == EXT_PROC
