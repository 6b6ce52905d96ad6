from __future__ import annotations

import pytest

from router.pool.endpoint import ROLE_LABEL
from router.scheduling.filters.decode import DecodeFilter
from tests.support import make


@pytest.mark.parametrize(
    ("role", "kept"),
    [
        ("decode", True),
        ("prefill-decode", True),
        ("both", True),
        ("encode-prefill-decode", True),
        (None, True),
        ("prefill", False),
        ("encode", False),
        ("encode-prefill", False),
        ("something-else", False),
    ],
)
def test_keeps_what_can_decode(role: str | None, kept: bool) -> None:
    endpoint = make.endpoint(labels={} if role is None else {ROLE_LABEL: role})
    assert bool(DecodeFilter().filter(make.request(), [endpoint], make.facts())) is kept
