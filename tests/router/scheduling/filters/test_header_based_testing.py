from __future__ import annotations

import pytest

from router.producers.facts import Facts
from router.scheduling.filters.header_based_testing import HEADER, HeaderBasedTestingFilter
from tests.support import make

ADDRESSES = ("10.0.0.1:3000", "10.0.0.1:3001", "10.0.0.2:3000")


@pytest.mark.parametrize(
    ("header", "kept"),
    [
        ("10.0.0.1", ADDRESSES[:2]),
        ("10.0.0.1:3001", ADDRESSES[1:2]),
        ("10.0.0.2, 10.0.0.1:3000", ("10.0.0.1:3000", "10.0.0.2:3000")),
        ("192.0.2.9", ()),
        ("", ()),
        (None, ()),
    ],
)
def test_only_what_the_header_lists_is_kept(header: str | None, kept: tuple[str, ...]) -> None:
    headers = {} if header is None else {HEADER: header}
    endpoints = [make.endpoint(address) for address in ADDRESSES]
    left = HeaderBasedTestingFilter().filter(make.request(headers=headers), endpoints, Facts())
    assert tuple(endpoint.address for endpoint in left) == kept
