from __future__ import annotations

import pytest

from router.producers.facts import InFlight, Uncached
from router.scheduling.filters.concurrency_detector import ConcurrencyDetector
from tests.support import make

ENDPOINTS = [make.endpoint(name) for name in "abc"]
FACTS = make.facts(in_flight={"a": 9, "b": 10}, in_flight_tokens={"a": 1000, "b": 400})


@pytest.mark.parametrize(
    ("mode", "headroom", "kept", "saturation"),
    [
        # 9/10, 10/10, 0/10 requests and 1000/1000, 400/1000, 0/1000 tokens.
        pytest.param("requests", 0.0, "ac", 1.9 / 3, id="requests"),
        pytest.param("tokens", 0.0, "bc", 1.4 / 3, id="tokens"),
        pytest.param("hybrid", 0.0, "c", 2.0 / 3, id="hybrid"),
        pytest.param("requests", 0.1, "abc", 1.9 / 3, id="headroom"),
    ],
)
def test_endpoints_with_as_much_in_flight_as_they_may_have_are_left_out(
    mode: str, headroom: float, kept: str, saturation: float
) -> None:
    detector = ConcurrencyDetector(
        max_concurrency=10,
        max_token_concurrency=1000,
        concurrency_mode=mode,  # type: ignore[arg-type]
        headroom=headroom,
    )
    left = detector.filter(make.request(), ENDPOINTS, FACTS)
    assert "".join(endpoint.address for endpoint in left) == kept
    assert detector.saturation(ENDPOINTS, FACTS) == pytest.approx(saturation)


def test_nobody_may_be_left() -> None:
    full = make.facts(in_flight=dict.fromkeys("abc", 100))
    assert ConcurrencyDetector().filter(make.request(), ENDPOINTS, full) == []
    assert ConcurrencyDetector.by_load


def test_all_have_room_where_nobody_counts() -> None:
    detector = ConcurrencyDetector()
    assert detector.filter(make.request(), ENDPOINTS, make.facts()) == ENDPOINTS
    assert detector.saturation(ENDPOINTS, make.facts()) == 0.0
    assert detector.saturation([], make.facts()) == 1.0


def test_tokens_are_counted_where_they_are_limited() -> None:
    in_flight, uncached = (InFlight, "load"), (Uncached, "load")
    by_mode = {
        mode: ConcurrencyDetector(
            concurrency_mode=mode,
            in_flight_load_producer_name="load",
        ).needs()
        for mode in ("requests", "tokens", "hybrid")
    }
    assert by_mode == {
        "requests": (in_flight,),
        "tokens": (in_flight, uncached),
        "hybrid": (in_flight, uncached),
    }
