"""What every request is counted in: plain numbers, which cost less to keep than locked ones."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from router.telemetry import buckets
from router.telemetry.samples import Buckets, Histogram, Sample

LABELS = ("model_name", "target_model_name", "fairness_id", "priority")

_BYTES = tuple(map(float, buckets.BYTES))
_DURATION_S = tuple(map(float, buckets.DURATION_S))
_PER_TOKEN_S = tuple(map(float, buckets.PER_TOKEN_S))
_DECISION_S = tuple(map(float, buckets.DECISION_S))
_REQUEST_WORK_S = tuple(map(float, buckets.REQUEST_WORK_S))
_ANSWER_WORK_S = tuple(map(float, buckets.ANSWER_WORK_S))


class Series:
    """Requests with the same labels.

    Attributes:
        labels: Values of `LABELS`.
        requests: Routed or refused.
        running: Between pick and end.
        size: Bytes of bodies shown.
        duration: Seconds from the pick to the end.
        gaps: Seconds between two pieces of a streamed answer, where its body is seen.
    """

    __slots__ = ("duration", "gaps", "labels", "requests", "running", "size")

    def __init__(self, labels: tuple[str, ...]) -> None:
        self.labels = labels
        self.requests = 0
        self.running = 0
        self.size = Buckets(_BYTES)
        self.duration = Buckets(_DURATION_S)
        self.gaps = Buckets(_PER_TOKEN_S)


class AllSeries:
    """Those of all labels, and what has none.

    Attributes:
        decisions: Seconds from the last byte of a request to the pick.
        request_work: Seconds that the router spent on a request, waiting for nobody.
        answer_work: Seconds that it spent on an answer.
        prompt_tokens: Of requests with known tokens.
        predicted_tokens: Those of them that were expected to be reused.
    """

    def __init__(self) -> None:
        self._series: dict[tuple[str, ...], Series] = {}
        self.decisions = Buckets(_DECISION_S)
        self.request_work = Buckets(_REQUEST_WORK_S)
        self.answer_work = Buckets(_ANSWER_WORK_S)
        self.prompt_tokens = 0
        self.predicted_tokens = 0

    def __len__(self) -> int:
        return len(self._series)

    def get(self, labels: tuple[str, ...]) -> Series | None:
        """The series of these labels, if there is one."""
        return self._series.get(labels)

    def add(self, labels: tuple[str, ...]) -> Series:
        """A series of labels that have none."""
        series = self._series[labels] = Series(labels)
        return series

    def samples(self) -> Iterator[Sample | Histogram]:
        """What was counted; read in any thread, while the loop counts on."""
        yield from _labelled(list(self._series.values()))
        yield from self._plain()

    def _plain(self) -> Iterator[Sample | Histogram]:
        for name, text, kept in (
            (
                "scheduler_e2e_duration_seconds",
                "From the last byte of a request to the pick.",
                self.decisions,
            ),
            (
                "request_processing_duration_seconds",
                "Spent on a request from its last byte until its destination, or its refusal, is "
                "known, without the time in which others were waited for; gRPC apart.",
                self.request_work,
            ),
            (
                "response_processing_duration_seconds",
                "Spent on an answer: on its headers, and on each piece of its body that is shown, "
                "not between them; gRPC apart.",
                self.answer_work,
            ),
        ):
            yield Histogram(f"llm_d_epp_{name}", text, {(): kept})
        for name, text, count in (
            ("prompt_tokens", "Prompt tokens of requests with known tokens.", self.prompt_tokens),
            ("predicted_cached_tokens", "Expected to be reused.", self.predicted_tokens),
        ):
            yield Sample(f"warmroute_{name}", text, {(): float(count)}, counter=True)


def _labelled(known: Sequence[Series]) -> Iterator[Sample | Histogram]:
    yield Sample(
        "llm_d_epp_request",
        "Requests routed or refused.",
        {series.labels: float(series.requests) for series in known},
        LABELS,
        counter=True,
    )
    yield Sample(
        "llm_d_epp_request_running",
        "Requests between pick and end.",
        {series.labels: float(series.running) for series in known},
        LABELS,
    )
    yield Histogram(
        "llm_d_epp_request_size_bytes",
        "Of bodies shown.",
        {series.labels: series.size for series in known},
        LABELS,
    )
    yield Histogram(
        "llm_d_epp_request_duration_seconds",
        "From the pick to the end.",
        {series.labels: series.duration for series in known},
        LABELS,
    )
    yield Histogram(
        "llm_d_epp_request_streaming_itl_seconds",
        "Between two pieces of a streamed answer, where its body is seen.",
        {series.labels: series.gaps for series in known if any(series.gaps.counts)},
        LABELS,
    )
