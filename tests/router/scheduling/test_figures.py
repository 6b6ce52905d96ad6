from __future__ import annotations

import pytest

from router.scheduling.figures import filled, fresh, lowest_best
from tests.support import make


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        pytest.param([4, None, 0, None], [4, 2, 0, 2], id="mean"),
        pytest.param([4, 0], [4, 0], id="all-known"),
        pytest.param([None, None], None, id="none-known"),
        pytest.param([0.1, 0.1, 0.1, None], [0.1] * 4, id="not-above-equal-ones"),
    ],
)
def test_the_mean_stands_in_for_what_is_not_known(
    values: list[float | None], expected: list[float] | None
) -> None:
    assert filled(values) == expected


def test_the_lowest_is_best() -> None:
    assert lowest_best([10, 5, 0]) == [0.0, 0.5, 1.0]
    assert lowest_best([3, 3]) == [1.0, 1.0]


def test_metrics_count_while_they_are_young() -> None:
    young, old = (make.endpoint(waiting=1, scraped_at=at) for at in (97, 96.9))
    seldom = make.endpoint(waiting=1, scraped_at=80, good_for_s=30)
    endpoints = [young, old, seldom, make.endpoint()]
    facts = make.facts()
    assert fresh(endpoints, facts) == [young.metrics, old.metrics, seldom.metrics, None]
    facts.now = 100
    assert fresh(endpoints, facts) == [young.metrics, None, seldom.metrics, None]
