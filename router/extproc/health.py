"""gRPC health checks. IO.

Any service name is answered: charts ask for names of their own. All of them follow readiness but
``liveness``, which holds as long as the process answers.
"""

from __future__ import annotations

from collections.abc import Callable

import grpc
from grpc_health.v1 import health_pb2 as pb
from grpc_health.v1.health_pb2_grpc import HealthServicer

LIVENESS = "liveness"


class Health(HealthServicer):
    """Answers `Check` from a question asked anew each time."""

    def __init__(self, ready: Callable[[], bool]) -> None:
        self._ready = ready

    async def Check(  # noqa: N802 - the name is gRPC's
        self,
        request: pb.HealthCheckRequest,
        context: grpc.aio.ServicerContext[pb.HealthCheckRequest, pb.HealthCheckResponse],
    ) -> pb.HealthCheckResponse:
        serving = request.service == LIVENESS or self._ready()
        status = pb.HealthCheckResponse.SERVING if serving else pb.HealthCheckResponse.NOT_SERVING
        return pb.HealthCheckResponse(status=status)
