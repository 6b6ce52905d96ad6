from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry

from router.request.usage import Usage
from router.telemetry.answers import Answers
from router.telemetry.families import Families
from router.telemetry.series import LABELS
from tests.router.telemetry.test_metrics import record

MINE = ("m", "t", "f", "0")


def test_sizes_times_and_tokens_are_counted_as_far_as_they_are_seen() -> None:
    registry = CollectorRegistry()
    answers = Answers(Families(registry))
    answers.ended(record(), MINE)
    answers.ended(record(usage_unreadable=True), MINE)
    seen = record(
        response_bytes=100,
        streamed=True,
        first_ms=200.0,
        duration_ms=1000.0,
        predicted_cached_tokens=64,
        usage=Usage(70, 5, 48),
    )
    answers.ended(seen, MINE)

    def value(name: str, **labels: str) -> float | None:
        return registry.get_sample_value(name, {**dict(zip(LABELS, MINE, strict=True)), **labels})

    request = "llm_d_epp_request"
    assert value("llm_d_epp_response_size_bytes_sum") == 100
    assert value(f"{request}_ttft_seconds_sum", streaming="true") == 0.2
    assert value(f"{request}_ntpot_seconds_sum") == 0.2
    assert value(f"{request}_streaming_tpot_seconds_sum") == 0.2
    tokens = [value(f"{request}_{kind}_tokens_sum") for kind in ("input", "output", "cached")]
    assert tokens == [70, 5, 48]
    assert value(f"{request}_input_tokens_count") == 1
    ours = ("compared_cached_tokens", "compared_predicted_cached_tokens", "unreadable_usage")
    assert [registry.get_sample_value(f"warmroute_{name}_total") for name in ours] == [48, 64, 1]
    assert value(f"{request}_ttft_seconds_sum", streaming="false") is None


def test_one_token_says_nothing_of_the_time_between_tokens() -> None:
    registry = CollectorRegistry()
    answers = Answers(Families(registry))
    once = record(streamed=True, first_ms=1.0, duration_ms=2.0, usage=Usage(7, 1, None))
    answers.ended(once, MINE)
    mine = dict(zip(LABELS, MINE, strict=True))
    value = registry.get_sample_value
    assert value("llm_d_epp_request_streaming_tpot_seconds_count", mine) is None
    assert value("llm_d_epp_request_ntpot_seconds_sum", mine) == pytest.approx(0.002)
