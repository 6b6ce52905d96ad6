from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.scheduling.filters.endpoint_attribute import EndpointAttributeFilter
from tests.support import make

ENDPOINTS = [
    make.endpoint(name, attributes={"GPUUtilization": share})
    for name, share in (("a", 0.8), ("b", 0.9), ("c", 1.0))
]
UNKNOWN = make.endpoint("d")


def plugin(operator: str = "LessThanOrEqual", value: float = 0.9, **more: Any) -> Any:
    threshold = {"type": "threshold", "threshold": {"operator": operator, "value": value}}
    parameters = {"attribute": "GPUUtilization", "algorithm": threshold, **more}
    return msgspec.convert(parameters, EndpointAttributeFilter)


def kept(filter_: Any) -> str:
    left = filter_.filter(make.request(), [*ENDPOINTS, UNKNOWN], make.facts())
    return "".join(endpoint.address for endpoint in left)


@pytest.mark.parametrize(
    ("operator", "left"),
    [
        ("LessThan", "a"),
        ("LessThanOrEqual", "ab"),
        ("GreaterThan", "c"),
        ("GreaterThanOrEqual", "bc"),
        ("Equal", "b"),
        ("NotEqual", "ac"),
    ],
)
def test_keeps_what_compares_so(operator: str, left: str) -> None:
    assert kept(plugin(operator, onMissing="Fail")) == left
    assert kept(plugin(operator)) == left + "d"


def test_all_are_kept_where_none_would_be_if_told_so() -> None:
    assert kept(plugin(value=0.1, onMissing="Fail")) == ""
    assert kept(plugin(value=0.1, onMissing="Fail", fallbackOnEmpty=True)) == "abcd"


@pytest.mark.parametrize(
    "parameters",
    [
        {},
        {"attribute": "GPUUtilization"},
        {"attribute": "GPUUtilization", "algorithm": {"type": "threshold"}},
        {"attribute": "GPUUtilization", "algorithm": {"type": "cel", "threshold": {}}},
    ],
    ids=["nothing", "no-algorithm", "no-threshold", "another-algorithm"],
)
def test_incomplete_parameters_are_refused(parameters: object) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(parameters, EndpointAttributeFilter)
