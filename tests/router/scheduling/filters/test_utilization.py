from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.producers.facts import InFlight
from router.scheduling.filters.utilization import UtilizationFilter
from tests.support import make

ENDPOINTS = [
    make.endpoint("a", waiting=2, running=8, kv_usage=0.5),
    make.endpoint("b", waiting=6, running=4, kv_usage=0.9),
    make.endpoint("c"),
]
FACTS = make.facts(in_flight={"a": 5, "c": 3})


def plugin(*conditions: tuple[str, float], **more: Any) -> UtilizationFilter:
    listed = [{"metric": metric, "maxValue": limit} for metric, limit in conditions]
    return msgspec.convert({"conditions": listed, **more}, UtilizationFilter)


@pytest.mark.parametrize(
    ("conditions", "kept"),
    [
        pytest.param([], "abc", id="no-condition"),
        pytest.param([("active-requests", 4)], "bc", id="in-flight"),
        pytest.param([("active-requests", 5)], "abc", id="the-limit-itself-passes"),
        # c counts as the mean: 6 running, 4 waiting, 0.7 of the cache.
        pytest.param([("running-requests", 6)], "bc", id="running"),
        pytest.param([("running-requests", 5)], "b", id="running-less"),
        pytest.param([("waiting-queue", 3)], "a", id="waiting"),
        pytest.param([("waiting-queue", 4)], "ac", id="waiting-more"),
        pytest.param([("kv-cache-utilization", 0.75)], "ac", id="kv-usage"),
        pytest.param([("waiting-queue", 4), ("active-requests", 3)], "c", id="all-must-hold"),
        pytest.param([("waiting-queue", 1)], "", id="nobody"),
    ],
)
def test_what_is_above_a_limit_is_left_out(conditions: list[tuple[str, float]], kept: str) -> None:
    left = plugin(*conditions).filter(make.request(), ENDPOINTS, FACTS)
    assert "".join(endpoint.address for endpoint in left) == kept


def test_all_are_kept_where_none_would_be_if_told_so() -> None:
    lenient = plugin(("waiting-queue", 1), fallbackOnEmpty=True)
    assert lenient.filter(make.request(), ENDPOINTS, FACTS) == ENDPOINTS


def test_all_pass_where_nothing_is_known() -> None:
    endpoints = [make.endpoint("a"), make.endpoint("b")]
    conditions = [(m, 0.0) for m in ("active-requests", "waiting-queue", "kv-cache-utilization")]
    assert plugin(*conditions).filter(make.request(), endpoints, make.facts()) == endpoints


def test_counts_in_flight_are_needed_only_where_they_are_limited() -> None:
    assert plugin(("waiting-queue", 1)).needs() == ()
    named = plugin(("active-requests", 1), inFlightLoadProducerName="load")
    assert named.needs() == ((InFlight, "load"),)
    with pytest.raises(msgspec.ValidationError):
        plugin(("queue", 1))
