from __future__ import annotations

import pytest

from router.pool.endpoint import ROLE_LABEL
from router.scheduling.filters.encode import EncodeFilter
from tests.support import make


@pytest.mark.parametrize(
    ("role", "kept"),
    [
        ("encode", True),
        ("encode-prefill", True),
        ("encode-prefill-decode", True),
        (None, False),
        ("prefill", False),
        ("decode", False),
        ("both", False),
        ("encode-decode", False),
    ],
)
def test_keeps_what_says_it_can_encode(role: str | None, kept: bool) -> None:
    endpoint = make.endpoint(labels={} if role is None else {ROLE_LABEL: role})
    assert bool(EncodeFilter().filter(make.request(), [endpoint], make.facts())) is kept
