from __future__ import annotations

import pytest

from router.scheduling.filters.header_based_testing import HEADER, HeaderBasedTestingFilter
from tests.support import make

ENDPOINTS = [make.endpoint(a) for a in ("10.0.0.1:8000", "10.0.0.1:8001", "[fd00::1]:8000")]


@pytest.mark.parametrize(
    ("value", "kept"),
    [
        pytest.param("10.0.0.1:8001", [1], id="address"),
        pytest.param("10.0.0.1", [0, 1], id="ip"),
        pytest.param(" fd00::1 , 10.0.0.1:8000", [0, 2], id="list"),
        pytest.param("[fd00::1]:8000", [2], id="ipv6-address"),
        pytest.param("10.0.0.9", [], id="nobody"),
        pytest.param("", [], id="empty"),
    ],
)
def test_keeps_the_endpoints_that_are_named(value: str, kept: list[int]) -> None:
    request = make.request(headers={HEADER: value})
    left = HeaderBasedTestingFilter().filter(request, ENDPOINTS, make.facts())
    assert left == [ENDPOINTS[i] for i in kept]


def test_without_the_header_nobody_is_kept() -> None:
    assert HeaderBasedTestingFilter().filter(make.request(), ENDPOINTS, make.facts()) == []
