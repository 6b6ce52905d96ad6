from __future__ import annotations

import pytest

from router.scheduling.scorers.active_request import ActiveRequestScorer
from tests.support import make

ENDPOINTS = [make.endpoint(name) for name in "abc"]


@pytest.mark.parametrize(
    ("parameters", "counts", "scores"),
    [
        pytest.param({}, {"a": 4, "b": 1}, [0.0, 0.75, 1.0], id="in-proportion"),
        pytest.param({}, {}, [1.0, 1.0, 1.0], id="all-idle"),
        pytest.param({"idle_threshold": 1}, {"a": 4, "b": 1}, [0.0, 1.0, 1.0], id="idle-threshold"),
        pytest.param({"max_busy_score": 0.5}, {"a": 4, "b": 2}, [0.0, 0.25, 1.0], id="busy-score"),
    ],
)
def test_fewer_requests_in_flight_score_higher(
    parameters: dict[str, float], counts: dict[str, int], scores: list[float]
) -> None:
    scorer = ActiveRequestScorer(**parameters)  # type: ignore[arg-type]
    assert scorer.score(make.request(), ENDPOINTS, make.facts(in_flight=counts)) == scores


def test_all_are_equal_where_nobody_counts() -> None:
    assert ActiveRequestScorer().score(make.request(), ENDPOINTS, make.facts()) == [1.0, 1.0, 1.0]
