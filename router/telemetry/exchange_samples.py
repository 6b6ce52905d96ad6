"""What the ext_proc service has seen, for the metrics page."""

from __future__ import annotations

from collections.abc import Iterator

from router.extproc.stats import StreamStats
from router.telemetry.samples import Histogram, Sample, Values


def samples(stats: StreamStats) -> Iterator[Sample | Histogram]:
    """Where that is kept, also how streams ended, and after how long."""
    open_: Values = {(): float(stats.open)}
    yield Sample("llm_d_epp_extproc_streams_inflight", "ext_proc streams.", open_)
    yield Sample("warmroute_streams_open", "ext_proc streams.", open_)
    failed: Values = {(): float(stats.failed)}
    early: Values = {(): float(stats.ended_early)}
    text = "Ended with the headers of an answer that was to be streamed."
    yield Sample("warmroute_streams_ended_early", text, early, counter=True)
    seen: Values = {(): float(stats.observed)}
    yield Sample("warmroute_streams_observed", "That took no answer.", seen, counter=True)
    yield Sample("warmroute_streams_failed", "Ended by a fault.", failed, counter=True)
    if stats.tells_ends:
        codes: Values = {(code,): float(count) for code, count in stats.codes.items()}
        text = "ext_proc streams that ended, by the gRPC status."
        yield Sample("llm_d_epp_extproc_streams", text, codes, ("code",), True)
        text = "How long they were open."
        yield Histogram("llm_d_epp_extproc_stream_duration_seconds", text, {(): stats.duration})
