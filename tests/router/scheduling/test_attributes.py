from __future__ import annotations

import pytest

from router.scheduling.attributes import attribute
from tests.support import make

ENDPOINTS = [
    make.endpoint(
        "a", waiting=3, running=2, kv_usage=0.5, scraped_at=99, attributes={"GPUUtilization": 0.9}
    ),
    make.endpoint("b", waiting=0, scraped_at=1),
    make.endpoint("c"),
]


@pytest.mark.parametrize(
    ("key", "values"),
    [
        ("WaitingQueueSize", [3, 0, None]),
        ("RunningRequestsSize", [2, None, None]),
        ("KVCacheUsagePercent", [0.5, None, None]),
        ("GPUUtilization", [0.9, None, None]),
        ("Unheard", [None, None, None]),
    ],
)
def test_attributes_come_from_metrics_and_from_extractors(
    key: str, values: list[float | None]
) -> None:
    assert attribute(ENDPOINTS, key, make.facts()) == values


def test_attributes_of_stale_metrics_are_not_known() -> None:
    facts = make.facts()
    facts.now = 100
    assert attribute(ENDPOINTS, "WaitingQueueSize", facts) == [3, None, None]
