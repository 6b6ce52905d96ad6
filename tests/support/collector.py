"""An OpenTelemetry collector that keeps the spans it is sent. IO."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import grpc
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.proto.trace.v1.trace_pb2 import Span


class Collector(TraceServiceServicer):
    """
    Attributes:
        spans: All that came.
        services: Who sent them.
        url: Where it listens.
    """

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.services: set[str] = set()
        self.url = ""

    async def Export(  # noqa: N802 - the name is OpenTelemetry's
        self,
        request: ExportTraceServiceRequest,
        context: grpc.aio.ServicerContext[ExportTraceServiceRequest, ExportTraceServiceResponse],
    ) -> ExportTraceServiceResponse:
        for group in request.resource_spans:
            named = {a.key: a.value.string_value for a in group.resource.attributes}
            self.services.add(named["service.name"])
            for scope in group.scope_spans:
                self.spans.extend(scope.spans)
        return ExportTraceServiceResponse()

    def of_trace(self, trace_id: str) -> dict[str, Span]:
        """The spans of one trace, by name."""
        wanted = bytes.fromhex(trace_id)
        return {span.name: span for span in self.spans if span.trace_id == wanted}


@asynccontextmanager
async def collector() -> AsyncIterator[Collector]:
    """One that listens on a port of its own."""
    server, kept = grpc.aio.server(), Collector()
    add_TraceServiceServicer_to_server(kept, server)  # type: ignore[no-untyped-call]
    kept.url = f"http://127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield kept
    finally:
        await server.stop(None)
