from __future__ import annotations

import pytest

from router.scheduling.scorers.kv_cache_utilization import KvCacheUtilizationScorer
from tests.support import make


@pytest.mark.parametrize(
    ("usage", "scores"),
    [
        pytest.param([0.25, 1.0, 0.0], [0.75, 0.0, 1.0], id="free-share"),
        pytest.param([0.5, None, 0.0], [0.5, 0.75, 1.0], id="unknown-is-the-mean"),
        pytest.param([None], [1.0], id="nothing-known"),
    ],
)
def test_freer_caches_score_higher(usage: list[float | None], scores: list[float]) -> None:
    endpoints = [make.endpoint(f"e{i}", kv_usage=u) for i, u in enumerate(usage)]
    assert KvCacheUtilizationScorer().score(make.request(), endpoints, make.facts()) == scores
