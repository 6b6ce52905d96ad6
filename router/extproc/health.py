"""gRPC health checks: `Check` and `List` of grpc.health.v1. IO.

Any service name is answered: charts ask for names of their own. All of them follow readiness but
``liveness``, which holds as long as the process answers.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import grpc

from router.extproc.pb import health_pb2 as pb

LIVENESS = "liveness"
SERVER = ""
"""The server as a whole, as gRPC has it."""

KNOWN = (SERVER, LIVENESS, "readiness", "envoy.service.ext_proc.v3.ExternalProcessor")
"""Names that the endpoint picker protocol and gRPC give; the only ones that can be listed."""

_Context = grpc.aio.ServicerContext


class Health:
    """Answers from a question asked anew each time."""

    def __init__(self, ready: Callable[[], bool]) -> None:
        self._ready = ready

    async def check(
        self,
        request: pb.HealthCheckRequest,
        context: _Context[pb.HealthCheckRequest, pb.HealthCheckResponse],
    ) -> pb.HealthCheckResponse:
        """How the service of that name is."""
        return self._status(request.service)

    async def list(
        self,
        request: pb.HealthListRequest,
        context: _Context[pb.HealthListRequest, pb.HealthListResponse],
    ) -> pb.HealthListResponse:
        """How each service is whose name is known."""
        return pb.HealthListResponse(statuses={name: self._status(name) for name in KNOWN})

    def _status(self, service: str) -> pb.HealthCheckResponse:
        serving = service == LIVENESS or self._ready()
        status = pb.HealthCheckResponse.SERVING if serving else pb.HealthCheckResponse.NOT_SERVING
        return pb.HealthCheckResponse(status=status)


def add_to_server(health: Health, server: grpc.aio.Server) -> None:
    """Serve `health` there. Who wants to watch is told that it is not implemented."""
    check = grpc.unary_unary_rpc_method_handler(
        health.check,
        request_deserializer=pb.HealthCheckRequest.FromString,
        response_serializer=pb.HealthCheckResponse.SerializeToString,
    )
    listing = grpc.unary_unary_rpc_method_handler(
        health.list,
        request_deserializer=pb.HealthListRequest.FromString,
        response_serializer=pb.HealthListResponse.SerializeToString,
    )
    methods: dict[str, grpc.RpcMethodHandler[Any, Any]] = {"Check": check, "List": listing}
    handler = grpc.method_handlers_generic_handler("grpc.health.v1.Health", methods)
    server.add_generic_rpc_handlers((handler,))
