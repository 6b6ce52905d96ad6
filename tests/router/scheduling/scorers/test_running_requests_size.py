from __future__ import annotations

import pytest

from router.scheduling.scorers.running_requests_size import RunningRequestsSizeScorer
from tests.support import make


@pytest.mark.parametrize(
    ("running", "scores"),
    [
        pytest.param([8, 2, 0], [0.0, 0.75, 1.0], id="in-proportion"),
        pytest.param([5, 5], [1.0, 1.0], id="all-equal"),
        pytest.param([8, None, 0], [0.0, 0.5, 1.0], id="unknown-is-the-mean"),
        pytest.param([None, None], [1.0, 1.0], id="nothing-known"),
    ],
)
def test_fewer_running_requests_score_higher(
    running: list[int | None], scores: list[float]
) -> None:
    endpoints = [make.endpoint(f"e{i}", running=r) for i, r in enumerate(running)]
    assert RunningRequestsSizeScorer().score(make.request(), endpoints, make.facts()) == scores
