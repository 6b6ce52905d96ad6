from __future__ import annotations

import pytest

from tests.router.producers.test_prefix import A, B
from tests.router.telemetry.doctor.ward import Ward

SENT = 100


def compared(hits: float, predicted: int = 48, queries: float = 70.0) -> Ward:
    """`SENT` requests of 70 tokens, and what the engine counted per request."""
    ward = Ward()
    # What it counted before is nobody's business here.
    ward.scrape(A, prefix_hits=5000.0, prefix_queries=9000.0)
    ward.wait(1)
    for _ in range(SENT):
        ward.answered(predicted_cached_tokens=predicted, total_blocks=0)
    counted = {"prefix_hits": 5000 + SENT * hits, "prefix_queries": 9000 + SENT * queries}
    ward.scrape(A, **counted)
    return ward


def test_a_prediction_that_comes_true_is_no_finding() -> None:
    assert compared(48).codes() == []
    assert compared(50).codes() == []


@pytest.mark.parametrize(
    ("hits", "fix"), [(64, "knows less than the engine"), (16, "reuses less than it holds")]
)
def test_a_prediction_that_does_not_is_named_with_both_counts(hits: int, fix: str) -> None:
    finding = compared(hits).only()
    assert (finding.code, finding.about) == ("prediction-off", A)
    assert finding.evidence["predicted_tokens"] == 48 * SENT
    assert finding.evidence["engine_hits"] == hits * SENT
    assert fix in finding.fix


def test_an_engine_that_others_ask_too_is_not_judged() -> None:
    assert compared(16, queries=140.0).codes() == []


def test_few_tokens_say_nothing() -> None:
    ward = Ward()
    ward.scrape(B, prefix_hits=0.0, prefix_queries=0.0)
    ward.wait(1)
    ward.answered(B, predicted_cached_tokens=64, total_blocks=0)
    ward.scrape(B, prefix_hits=0.0, prefix_queries=70.0)
    assert ward.codes() == []


def test_a_restart_begins_the_comparison_anew() -> None:
    ward = compared(48)
    ward.scrape(A, prefix_hits=0.0, prefix_queries=0.0, process_start=999.0)
    for _ in range(SENT):
        ward.answered(predicted_cached_tokens=0, total_blocks=0)
    counted = {"prefix_hits": 0.0, "prefix_queries": SENT * 70.0}
    ward.scrape(A, process_start=999.0, **counted)
    assert ward.codes() == [("engine-restarted", A)]
