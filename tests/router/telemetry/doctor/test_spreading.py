from __future__ import annotations

import pytest

from router.producers.facts import Facts
from router.telemetry.doctor.spreading import MIN_REQUESTS, RECENT_S
from tests.router.producers.test_prefix import A, B
from tests.router.telemetry.doctor.ward import Ward
from tests.support import make


def crowded(
    *, there: int = MIN_REQUESTS, elsewhere: int = 0, others: int = 0, waiting: int = 9
) -> Ward:
    """Requests of one prefix at A and B, others at B, and what waits at A."""
    ward = Ward()
    for address, prefix_id, count in ((A, "x", there), (B, "x", elsewhere), (B, "", others)):
        for _ in range(count):
            ward.answered(address, prefix_id=prefix_id, predicted_cached_tokens=32, total_blocks=0)
    ward.scrape(A, waiting=waiting)
    return ward


def test_a_prefix_that_fills_one_queue_while_others_are_empty_is_named() -> None:
    finding = crowded().only()
    assert (finding.code, finding.about) == ("prefix-pins-endpoint", A)
    assert (finding.evidence["prefix_id"], finding.evidence["prefix_tokens"]) == ("x", 32)
    assert (finding.evidence["its_load"], finding.evidence["idlest_load"]) == (9, 0)


@pytest.mark.parametrize(
    "harmless",
    [
        {"there": MIN_REQUESTS - 1},
        {"elsewhere": MIN_REQUESTS},
        {"others": 2 * MIN_REQUESTS},
        {"waiting": 3},
    ],
    ids=str,
)
def test_what_is_spread_rare_or_done_in_time_is_no_finding(harmless: dict[str, int]) -> None:
    assert crowded(**harmless).codes() == []


def test_what_is_past_is_no_finding() -> None:
    ward = crowded()
    ward.wait(RECENT_S + 1)
    assert ward.codes() == []


def test_requests_of_this_router_count_before_a_scrape_tells_of_them() -> None:
    ward = crowded(waiting=0)
    for _ in range(5):
        ward.load.decided(make.request(), Facts(), make.decision(A))
    assert ward.only().evidence["its_load"] == 5
