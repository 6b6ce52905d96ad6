from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.scheduling.filters.label_selector import LabelSelectorFilter
from tests.support import make

ENDPOINTS = [
    make.endpoint("a", labels={"tier": "gold", "gpu": "h100"}),
    make.endpoint("b", labels={"tier": "tin", "gpu": ""}),
    make.endpoint("c"),
]


def expression(operator: str, *values: str, key: str = "tier") -> dict[str, Any]:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("selector", "kept"),
    [
        pytest.param({}, "abc", id="everything"),
        pytest.param({"matchLabels": {"tier": "gold"}}, "a", id="label"),
        pytest.param({"matchLabels": {"tier": "gold", "gpu": "a100"}}, "", id="all-labels"),
        pytest.param(expression("In", "gold", "tin"), "ab", id="in"),
        pytest.param(expression("NotIn", "gold"), "bc", id="not-in-or-absent"),
        pytest.param(expression("Exists", key="gpu"), "ab", id="exists"),
        pytest.param(expression("DoesNotExist", key="gpu"), "c", id="does-not-exist"),
        pytest.param({"matchLabels": {"gpu": ""}, **expression("Exists")}, "b", id="both"),
    ],
)
def test_keeps_what_the_selector_matches(selector: dict[str, Any], kept: str) -> None:
    plugin = msgspec.convert(selector, LabelSelectorFilter)
    left = plugin.filter(make.request(), ENDPOINTS, make.facts())
    assert "".join(endpoint.address for endpoint in left) == kept


@pytest.mark.parametrize(
    "selector",
    [expression("In"), expression("Exists", "gold"), expression("Near", "gold"), {"labels": {}}],
    ids=["in-nothing", "exists-with-values", "no-operator", "unknown-field"],
)
def test_selectors_that_kubernetes_refuses_are_refused(selector: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(selector, LabelSelectorFilter)
