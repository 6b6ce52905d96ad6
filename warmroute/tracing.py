"""Sends spans to an OpenTelemetry collector, where it is asked for. IO (by threads of its SDK).

The variables that OpenTelemetry defines say where and how many: `OTEL_EXPORTER_OTLP_ENDPOINT`,
`OTEL_TRACES_SAMPLER`, `OTEL_SERVICE_NAME`, and so on. Needs the extra `otel`, so it is imported
only where traces are on.
"""

from __future__ import annotations

import asyncio
import os

from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

from router.telemetry.trace import Traces

NAME = "warmroute"


class Tracing:
    """Spans on their way.

    Attributes:
        traces: Makes them; to be told of each request.
    """

    def __init__(self) -> None:
        name = os.environ.get("OTEL_SERVICE_NAME", NAME)
        self._provider = TracerProvider(
            resource=Resource.create({"service.name": name}), shutdown_on_exit=False
        )
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self.traces = Traces(self._provider.get_tracer(NAME))

    async def close(self) -> None:
        """Send what is left, as far as the collector takes it."""
        await asyncio.to_thread(self._provider.shutdown)
