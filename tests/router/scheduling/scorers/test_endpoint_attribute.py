from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.scheduling.scorers.endpoint_attribute import EndpointAttributeScorer
from tests.support import make

FIXED: dict[str, Any] = {"fixedRange": {"min": 0.0, "max": 0.8}}


def scores(*values: float | None, higher: bool = False, **normalization: Any) -> list[float]:
    kind = "linear_higher_is_better" if higher else "linear_lower_is_better"
    algorithm = {"type": kind, **({"normalization": normalization} if normalization else {})}
    plugin = msgspec.convert(
        {"attributeKey": "GPUUtilization", "algorithm": algorithm}, EndpointAttributeScorer
    )
    endpoints = [
        make.endpoint(f"e{i}", attributes={} if v is None else {"GPUUtilization": v})
        for i, v in enumerate(values)
    ]
    return list(plugin.score(make.request(), endpoints, make.facts()))


def test_the_range_is_that_of_the_candidates() -> None:
    assert scores(0.2, 0.4, 0.6) == pytest.approx([1.0, 0.5, 0.0])
    assert scores(0.2, 0.4, 0.6, higher=True) == pytest.approx([0.0, 0.5, 1.0])
    assert scores(0.2, 0.4, 0.6, adaptiveRange={}) == pytest.approx([1.0, 0.5, 0.0])


def test_the_range_may_be_given_and_ends_at_its_ends() -> None:
    assert scores(0.2, 0.8, 0.9, -1, **FIXED) == pytest.approx([0.75, 0.0, 0.0, 1.0])
    assert scores(0.2, 0.8, 0.9, -1, higher=True, **FIXED) == pytest.approx([0.25, 1.0, 1.0, 0.0])


def test_equal_ones_score_the_best() -> None:
    assert scores(0.4, 0.4) == [1.0, 1.0]
    assert scores(0.4, 0.4, higher=True) == [1.0, 1.0]


def test_who_lacks_it_scores_nothing() -> None:
    assert scores(0.2, None, 0.6) == [1.0, 0.0, 0.0]
    assert scores(None, None) == [0.0, 0.0]
    assert scores(None, **FIXED) == [0.0]


@pytest.mark.parametrize(
    "normalization",
    [{**FIXED, "adaptiveRange": {}}, {"fixedRange": {"min": 1, "max": 1}}, {"fixedRange": {}}],
    ids=["both", "no-range", "no-ends"],
)
def test_ranges_that_make_no_sense_are_refused(normalization: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        scores(0.2, **normalization)
