from __future__ import annotations

import msgspec
import pytest

from router.scheduling.scorers.header_label_affinity import HeaderLabelAffinityScorer
from tests.support import make

ENDPOINTS = [
    make.endpoint("a", labels={"tier": "gold"}),
    make.endpoint("b", labels={"tier": "tin"}),
    make.endpoint("c"),
]
SCORER = HeaderLabelAffinityScorer(header_name="X-Tier", label_key="tier")


@pytest.mark.parametrize(
    ("headers", "scores"),
    [
        pytest.param({"x-tier": "gold"}, [1.0, 0.0, 0.0], id="equal"),
        pytest.param({"x-tier": "silver"}, [0.0, 0.0, 0.0], id="nobody-has-it"),
        pytest.param({"x-tier": ""}, [0.0, 0.0, 0.0], id="empty"),
        pytest.param({}, [0.0, 0.0, 0.0], id="no-header"),
    ],
)
def test_the_label_that_the_header_names_scores(
    headers: dict[str, str], scores: list[float]
) -> None:
    assert SCORER.score(make.request(headers=headers), ENDPOINTS, make.facts()) == scores


@pytest.mark.parametrize(
    "parameters", [{}, {"headerName": "x"}, {"headerName": "", "labelKey": ""}]
)
def test_header_and_label_must_be_named(parameters: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(parameters, HeaderLabelAffinityScorer)
