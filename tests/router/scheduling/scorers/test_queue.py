from __future__ import annotations

import pytest

from router.pool.endpoint import EngineMetrics
from router.producers.unseen import Unseen
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


@pytest.mark.parametrize(
    ("sent", "scores"),
    [
        pytest.param({}, [1.0, 0.0, 0.5], id="nothing"),
        pytest.param({"a": 1}, [1.0, 0.0, 2 / 3], id="a-queue-that-grew"),
        pytest.param({"a": 9, "c": 2}, [1.0, 1.0, 1.0], id="never-beyond-the-longest"),
        pytest.param({"b": 9}, [1.0, 0.0, 0.5], id="the-longest-is-the-longest"),
    ],
)
def test_what_was_sent_since_the_scrape_closes_a_difference(
    sent: dict[str, int], scores: list[float]
) -> None:
    queues = {"a": 0, "b": 4, "c": 2}
    endpoints = [
        make.endpoint(name, metrics=EngineMetrics(waiting=waiting, scraped_at=10.0))
        for name, waiting in queues.items()
    ]
    facts = make.facts()
    facts.now = 11.0
    in_flight: dict[str, dict[object, float]] = {name: {"before": 9.0} for name in queues}
    for name, count in sent.items():
        in_flight[name].update(dict.fromkeys(range(count), 10.5))
    facts.put(Unseen(in_flight))
    assert QueueScorer().score(make.request(), endpoints, facts) == scores
