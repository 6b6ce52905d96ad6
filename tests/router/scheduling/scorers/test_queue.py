from __future__ import annotations

import pytest

from router.scheduling.scorers.queue import QueueScorer
from tests.support import make


@pytest.mark.parametrize(
    ("waiting", "scores"),
    [
        pytest.param([10, 5, 0], [0.0, 0.5, 1.0], id="in-proportion"),
        pytest.param([5, 5], [1.0, 1.0], id="all-equal"),
        pytest.param([7], [1.0], id="single"),
        pytest.param([10, None, 0], [0.0, 0.5, 1.0], id="unknown-is-the-mean"),
        pytest.param([None, None], [1.0, 1.0], id="nothing-known"),
    ],
)
def test_shorter_queues_score_higher(waiting: list[int | None], scores: list[float]) -> None:
    endpoints = [make.endpoint(f"e{i}", waiting=w) for i, w in enumerate(waiting)]
    assert QueueScorer().score(make.request(), endpoints, make.facts()) == scores


def test_an_endpoint_never_scraped_is_neither_best_nor_worst() -> None:
    endpoints = [make.endpoint("a", waiting=0), make.endpoint("b", waiting=4), make.endpoint("c")]
    assert QueueScorer().score(make.request(), endpoints, make.facts()) == [1.0, 0.0, 0.5]
