from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from router.errors import BadRequest, NoEndpoints, RouterError
from router.request.usage import Usage
from router.telemetry.decisions import Record
from router.telemetry.trace import Traces
from tests.support.records import A, record

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
SAMPLED, UNSAMPLED = f"00-{TRACE}-{PARENT}-01", f"00-{TRACE}-{PARENT}-00"


class Collected:
    """Traces and what comes of them."""

    def __init__(self) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.traces = Traces(provider.get_tracer("test"))

    @property
    def spans(self) -> Mapping[str, ReadableSpan]:
        return {span.name: span for span in self._exporter.get_finished_spans()}


def answered(**fields: Any) -> Record:
    given: dict[str, Any] = {
        "at": 100.0,
        "traceparent": SAMPLED,
        "times_ms": {"parse": 1.0, "tokens": 3.0, "schedule": 1.0},
        "took_ms": 5.0,
        "duration_ms": 50.0,
        "status": 200,
    }
    return record(**{**given, **fields})


def milliseconds(span: ReadableSpan) -> tuple[float, float]:
    """From the request's arrival."""
    assert span.start_time is not None
    assert span.end_time is not None
    return span.start_time / 1e6 - 100e3, span.end_time / 1e6 - 100e3


def test_each_stage_has_its_span_in_its_place() -> None:
    collected = Collected()
    collected.traces.ended(answered())
    spans = collected.spans
    assert {name: milliseconds(span) for name, span in spans.items()} == {
        "gateway.request": (0, 50),
        "decide": (0, 5),
        "parse": (0, 1),
        "tokens": (1, 4),
        "schedule": (4, 5),
        "response": (5, 50),
    }
    ids = {name: span.context.span_id for name, span in spans.items() if span.context}
    parents = {n: span.parent.span_id for n, span in spans.items() if span.parent}
    for stage in ("parse", "tokens", "schedule"):
        assert parents[stage] == ids["decide"]
    assert parents["decide"] == parents["response"] == ids["gateway.request"]


def test_a_request_goes_on_with_the_trace_it_belongs_to() -> None:
    collected = Collected()
    collected.traces.ended(answered(tracestate="vendor=1"))
    whole = collected.spans["gateway.request"]
    assert whole.parent is not None
    assert whole.parent.span_id == int(PARENT, 16)
    assert {f"{span.context.trace_id:032x}" for span in collected.spans.values()} == {TRACE}
    assert whole.parent.trace_state.to_header() == "vendor=1"
    assert whole.kind is SpanKind.SERVER


@pytest.mark.parametrize("given", ["", "nonsense", f"00-{'0' * 32}-{PARENT}-01"])
def test_without_a_trace_of_its_own_it_begins_one(given: str) -> None:
    collected = Collected()
    collected.traces.ended(answered(traceparent=given))
    assert collected.spans["gateway.request"].parent is None


def test_what_its_trace_does_not_sample_is_left_out() -> None:
    collected = Collected()
    collected.traces.ended(answered(traceparent=UNSAMPLED))
    assert collected.spans == {}


def test_the_outcome_stands_in_the_attributes_and_nothing_of_the_prompt() -> None:
    collected = Collected()
    usage = Usage(prompt_tokens=70, completion_tokens=5, cached_tokens=64)
    told = answered(prompt_tokens=70, predicted_cached_tokens=64, usage=usage, profile="default")
    told.streamed, told.first_ms = True, 20.0
    collected.traces.ended(told)
    assert dict(collected.spans["gateway.request"].attributes or {}) == {
        "warmroute.request_id": "r1",
        "warmroute.api": "chat",
        "gen_ai.request.model": "m",
        "warmroute.endpoint": A,
        "warmroute.profile": "default",
        "warmroute.candidates": 0,
        "warmroute.prompt_tokens": 70,
        "warmroute.predicted_cached_tokens": 64,
        "warmroute.reported_cached_tokens": 64,
        "gen_ai.usage.input_tokens": 70,
        "gen_ai.usage.output_tokens": 5,
        "http.response.status_code": 200,
    }
    response = dict(collected.spans["response"].attributes or {})
    assert response == {"warmroute.streamed": True, "warmroute.first_piece_ms": 20.0}


@pytest.mark.parametrize(
    ("status", "failed"), [(200, False), (404, False), (503, True), (None, True)]
)
def test_a_failure_of_the_engine_is_an_error(status: int | None, failed: bool) -> None:
    collected = Collected()
    collected.traces.ended(answered(status=status))
    code = collected.spans["gateway.request"].status.status_code
    assert code is (StatusCode.ERROR if failed else StatusCode.UNSET)


@pytest.mark.parametrize(
    ("error", "failed"),
    [(NoEndpoints("nobody"), True), (BadRequest("bad"), False)],
    ids=["ours", "the client's"],
)
def test_a_refusal_ends_with_its_reason(error: RouterError, failed: bool) -> None:
    collected = Collected()
    # What the stage that refused took is in none of `times_ms`.
    refused = answered(endpoint=None, refused=str(error), status=error.status, duration_ms=None)
    refused.took_ms = 7.0
    collected.traces.routed(refused)
    collected.traces.refused(refused, error)
    whole = collected.spans["gateway.request"]
    assert (whole.attributes or {})["http.response.status_code"] == error.status
    assert whole.status.description == ("nobody" if failed else None)
    assert milliseconds(whole) == (0, 7)
    assert "response" not in collected.spans
