from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.pool.subset import within
from tests.support import make

ADDRESSES = ("10.0.0.1:8000", "10.0.0.1:8001", "10.0.0.2:8000", "[fd00::1]:8000", "[fd00::2]:8000")
ENDPOINTS = [make.endpoint(address) for address in ADDRESSES]


@pytest.mark.parametrize(
    ("hint", "meant"),
    [
        (["10.0.0.1:8001"], ["10.0.0.1:8001"]),
        (["10.0.0.1"], ["10.0.0.1:8000", "10.0.0.1:8001"]),
        (["10.0.0.2:8000", "10.0.0.1:8000"], ["10.0.0.1:8000", "10.0.0.2:8000"]),
        (["[fd00::1]:8000"], ["[fd00::1]:8000"]),
        (["[fd00:0:0::2]"], ["[fd00::2]:8000"]),
        (["fd00::2"], ["[fd00::2]:8000"]),
        (["10.0.0.1:9"], []),
        (["10.0.0.9", "nonsense", "", "[fd00::1", "[fd00::1]x", "10.0.0.1:8000:1"], []),
        ([], []),
    ],
    ids=str,
)
def test_hosts_ports_and_ipv6_are_honoured(hint: list[str], meant: list[str]) -> None:
    assert [endpoint.address for endpoint in within(ENDPOINTS, hint)] == meant


@given(st.text(max_size=30))
def test_no_text_does_worse_than_mean_nobody(text: str) -> None:
    meant = within(ENDPOINTS, [text])
    assert [endpoint for endpoint in ENDPOINTS if endpoint in meant] == meant
