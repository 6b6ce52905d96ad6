from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.scheduling.filters.by_label import ByLabel
from tests.support import make

ENDPOINTS = [
    make.endpoint("gold", labels={"tier": "gold"}),
    make.endpoint("tin", labels={"tier": "tin"}),
    make.endpoint("plain"),
]


@pytest.mark.parametrize(
    ("parameters", "kept"),
    [
        pytest.param({"valid_values": ("gold", "silver")}, ["gold"], id="values"),
        pytest.param(
            {"valid_values": ("tin",), "allows_no_label": True}, ["tin", "plain"], id="or-no-label"
        ),
        pytest.param({"allows_no_label": True}, ["plain"], id="no-label"),
    ],
)
def test_keeps_by_the_value_of_the_label(parameters: dict[str, Any], kept: list[str]) -> None:
    left = ByLabel(label="tier", **parameters).filter(make.request(), ENDPOINTS, make.facts())
    assert [endpoint.address for endpoint in left] == kept


@pytest.mark.parametrize(
    "parameters", [{}, {"label": ""}, {"label": "tier"}, {"label": "tier", "validValues": []}]
)
def test_what_would_keep_nothing_is_refused(parameters: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(parameters, ByLabel)
