from __future__ import annotations

import msgspec
import pytest

from router.scheduling.scorers.load_aware import LoadAwareScorer
from tests.support import make


@pytest.mark.parametrize(
    ("waiting", "scores"),
    [
        pytest.param([0, 32, 64, 128, 999], [0.5, 0.375, 0.25, 0.0, 0.0], id="by-length"),
        pytest.param([128, None, 0], [0.0, 0.25, 0.5], id="unknown-is-the-mean"),
        pytest.param([None], [0.5], id="nothing-known"),
    ],
)
def test_shorter_queues_score_higher(waiting: list[int | None], scores: list[float]) -> None:
    endpoints = [make.endpoint(f"e{i}", waiting=w) for i, w in enumerate(waiting)]
    assert LoadAwareScorer().score(make.request(), endpoints, make.facts()) == scores


def test_the_threshold_is_a_parameter() -> None:
    endpoints = [make.endpoint(waiting=4)]
    assert LoadAwareScorer(threshold=8).score(make.request(), endpoints, make.facts()) == [0.25]
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"threshold": 0}, LoadAwareScorer)
