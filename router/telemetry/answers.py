"""What is counted of answers when they end: sizes, times and tokens, as far as they are seen."""

from __future__ import annotations

from router.request.usage import Usage
from router.telemetry import buckets
from router.telemetry.decisions import Record
from router.telemetry.families import Families
from router.telemetry.series import LABELS


class Answers:
    """Told of each request that ended."""

    def __init__(self, make: Families) -> None:
        self._size = make.histogram(
            "response_size_bytes", "Of bodies of answers that are seen.", buckets.ANSWER_BYTES
        )
        self._first = make.histogram(
            "request_ttft_seconds",
            "From the pick to the answer's first piece, where seen.",
            buckets.DURATION_S,
            (*LABELS, "streaming"),
        )
        self._per_token = make.histogram(
            "request_streaming_tpot_seconds",
            "Per generated token after the first, of streamed answers whose usage is read.",
            buckets.PER_TOKEN_S,
        )
        self._normalized = make.histogram(
            "request_ntpot_seconds",
            "Whole time per generated token, where usage is read.",
            buckets.PER_TOKEN_S,
        )
        self._unreadable = make.ours("unreadable_usage", "Answers whose usage cannot be read.")
        self._tokens = _Tokens(make)

    def ended(self, record: Record, labels: tuple[str, ...]) -> None:
        """A request's exchange is over; `labels` are those of its series."""
        if record.response_bytes:
            self._size.labels(*labels).observe(record.response_bytes)
        if record.first_ms is not None:
            streaming = str(record.streamed).lower()
            self._first.labels(*labels, streaming).observe(record.first_ms / 1e3)
        if record.usage_unreadable:
            self._unreadable.inc()
        if record.usage is not None:
            self._tokens.used(record, record.usage, labels)
            self._times(record, record.usage.completion_tokens, labels)

    def _times(self, record: Record, tokens: int, labels: tuple[str, ...]) -> None:
        whole_ms = record.duration_ms
        if whole_ms is None or tokens < 1:
            return
        self._normalized.labels(*labels).observe(whole_ms / 1e3 / tokens)
        if record.streamed and record.first_ms is not None and tokens > 1:
            rest_s = (whole_ms - record.first_ms) / 1e3
            self._per_token.labels(*labels).observe(rest_s / (tokens - 1))


class _Tokens:
    """As engines report them, and against what was predicted."""

    def __init__(self, make: Families) -> None:
        self._input = make.histogram("request_input_tokens", "Prompt tokens.", buckets.TOKENS)
        self._output = make.histogram("request_output_tokens", "Generated tokens.", buckets.TOKENS)
        self._cached = make.histogram(
            "request_cached_tokens",
            "Prompt tokens the engine reused, as it reports.",
            buckets.TOKENS,
        )
        self._compared = make.ours("compared_cached_tokens", "Reused, where both are known.")
        self._compared_predicted = make.ours(
            "compared_predicted_cached_tokens", "Expected to be reused, where both are known."
        )

    def used(self, record: Record, usage: Usage, labels: tuple[str, ...]) -> None:
        self._input.labels(*labels).observe(usage.prompt_tokens)
        self._output.labels(*labels).observe(usage.completion_tokens)
        if usage.cached_tokens is None:
            return
        self._cached.labels(*labels).observe(usage.cached_tokens)
        reported = record.reported_cached_tokens
        if record.predicted_cached_tokens is not None and reported is not None:
            self._compared.inc(reported)
            self._compared_predicted.inc(record.predicted_cached_tokens)
