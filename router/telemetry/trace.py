"""OpenTelemetry spans of a request, made of its record once it is over.

    gateway.request          from the last byte of the request to the end of the answer
      decide                 to the pick
        parse, each producer by its name, wait, schedule
      response               from the pick to the end

Nothing is measured for them: records hold the times anyway. The parent is the span that the request
names in `traceparent`, and its decision to sample counts. Needs the extra `otel`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from router.errors import RouterError
from router.telemetry.decisions import Record

FAILED_STATUS = 500
"""From this status on an answer is the server's failure (OpenTelemetry's rule for HTTP)."""

_propagator = TraceContextTextMapPropagator()


class Traces:
    """Is told of each request by the journal."""

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def routed(self, record: Record) -> None:
        """Its spans are made at its end."""

    def refused(self, record: Record, error: RouterError) -> None:
        """The end of a request that was sent nowhere."""
        took_ms = record.took_ms
        span = self._begin(record)
        if span.is_recording():
            self._stages(span, record, took_ms)
            span.set_attribute("http.response.status_code", error.status)
            span.set_attribute("error.type", error.kind)
            failed = error.status >= FAILED_STATUS
            span.set_status(Status(StatusCode.ERROR, record.refused) if failed else Status())
        span.end(_ns(record, took_ms))

    def ended(self, record: Record) -> None:
        """The end of a request that was sent to an endpoint."""
        whole_ms = record.duration_ms or record.took_ms
        span = self._begin(record)
        if span.is_recording():
            self._stages(span, record, record.took_ms)
            self._response(span, record, whole_ms)
            span.set_attributes(dict(_outcome(record)))
            if record.status is None or record.status >= FAILED_STATUS:
                span.set_status(Status(StatusCode.ERROR))
        span.end(_ns(record, whole_ms))

    def _begin(self, record: Record) -> Span:
        parent = {"traceparent": record.traceparent, "tracestate": record.tracestate}
        return self._tracer.start_span(
            "gateway.request",
            context=_propagator.extract(parent),
            kind=SpanKind.SERVER,
            attributes=dict(_question(record)),
            start_time=_ns(record, 0.0),
        )

    def _stages(self, whole: Span, record: Record, took_ms: float) -> None:
        """The decision, and within it one stage after the other."""
        decision = self._child(whole, "decide", record, 0.0, took_ms, {})
        since_ms = 0.0
        for stage, ms in record.times_ms.items():
            self._child(decision, stage, record, since_ms, since_ms + ms, {})
            since_ms += ms

    def _response(self, whole: Span, record: Record, whole_ms: float) -> None:
        known: dict[str, AttributeValue] = {"warmroute.streamed": record.streamed}
        if record.first_ms is not None:
            known["warmroute.first_piece_ms"] = record.first_ms
        self._child(whole, "response", record, record.took_ms, whole_ms, known)

    def _child(
        self,
        parent: Span,
        name: str,
        record: Record,
        start_ms: float,
        end_ms: float,
        attributes: Mapping[str, AttributeValue],
    ) -> Span:
        """A finished span; the times count from the request's."""
        span = self._tracer.start_span(
            name,
            context=set_span_in_context(parent),
            attributes=attributes,
            start_time=_ns(record, start_ms),
        )
        span.end(_ns(record, end_ms))
        return span


def _ns(record: Record, after_ms: float) -> int:
    return int((record.at + after_ms / 1e3) * 1e9)


def _question(record: Record) -> Iterator[tuple[str, AttributeValue]]:
    yield "warmroute.request_id", record.request_id
    yield "warmroute.api", record.kind
    if record.model:
        yield "gen_ai.request.model", record.model


def _outcome(record: Record) -> Iterator[tuple[str, AttributeValue]]:
    """What is known at the end; what is not known is left out."""
    known: dict[str, AttributeValue | None] = {
        "warmroute.endpoint": record.served or record.endpoint,
        "warmroute.profile": record.profile or None,
        "warmroute.candidates": record.candidates,
        "warmroute.prefill_endpoint": record.prefill.endpoints[0] if record.prefill else None,
        "warmroute.prompt_tokens": record.prompt_tokens,
        "warmroute.predicted_cached_tokens": record.predicted_cached_tokens,
        "warmroute.fallbacks": list(record.fallbacks) or None,
        "http.response.status_code": record.status,
    }
    usage = record.usage
    if usage is not None:
        known["gen_ai.usage.input_tokens"] = usage.prompt_tokens
        known["gen_ai.usage.output_tokens"] = usage.completion_tokens
        known["warmroute.reported_cached_tokens"] = usage.cached_tokens
    yield from ((name, value) for name, value in known.items() if value is not None)
