from __future__ import annotations

import pytest

from router.producers.tokens import Missing
from router.telemetry.doctor.tokenizing import MIN_ASKED
from router.telemetry.doctor.window import WINDOW_S
from tests.router.telemetry.doctor.ward import Ward


@pytest.mark.parametrize(
    ("field", "value", "said"),
    [
        ("connected", False, "is not reached"),
        ("hanging", True, "does not answer in time"),
        ("not_ready", ("m: no such folder",), "m: no such folder"),
    ],
)
def test_a_tokenizer_that_cannot_be_used_is_named(field: str, value: object, said: str) -> None:
    ward = Ward()
    setattr(ward.backend.stats, field, value)
    finding = ward.only()
    assert finding.code == "tokenizer-away"
    assert said in finding.what


def test_requests_without_ids_are_counted_by_reason_for_a_while() -> None:
    ward = Ward()
    stats = ward.backend.stats
    stats.missing[Missing.TIMEOUT] = 3
    stats.missing[Missing.UNKNOWN_MODEL] = 5
    stats.missing[Missing.REFUSED] = 9
    stats.tokenized = 2
    finding = ward.only()
    assert finding.code == "tokenizer-falls-back"
    assert finding.what.startswith("8 of 10 requests")
    assert finding.evidence["missing"] == {"timeout": 3, "unknown_model": 5}
    assert "--model NAME=DIR" in finding.fix
    for _ in range(2):
        ward.wait(WINDOW_S)
    ward.wait(1)
    assert ward.codes() == []


@pytest.mark.parametrize("reason", [Missing.UNSUPPORTED, Missing.REFUSED, Missing.NOT_SERVED])
def test_requests_that_nobody_could_tokenize_are_no_fault(reason: Missing) -> None:
    ward = Ward()
    ward.backend.stats.missing[reason] = 5
    assert ward.codes() == []


@pytest.mark.parametrize(("count", "seconds", "slow"), [(0, 1.0, 0), (0, 0.01, 0), (1, 1.0, 1)])
def test_long_waits_are_named_once_there_are_enough(count: int, seconds: float, slow: int) -> None:
    ward = Ward()
    for _ in range(MIN_ASKED - 1 + count):
        ward.backend.stats.took(seconds)
    assert ward.codes() == [("tokenizer-slow", "tokenizer")] * slow
