from __future__ import annotations

import pytest

from router.pool.endpoint import ROLE_LABEL
from router.scheduling.filters.prefill import PrefillFilter
from tests.support import make


@pytest.mark.parametrize(
    ("role", "kept"),
    [
        ("prefill", True),
        ("encode-prefill", True),
        ("prefill-decode", True),
        ("both", True),
        ("encode-prefill-decode", True),
        (None, False),
        ("decode", False),
        ("encode", False),
    ],
)
def test_keeps_what_says_it_can_prefill(role: str | None, kept: bool) -> None:
    endpoint = make.endpoint(labels={} if role is None else {ROLE_LABEL: role})
    assert bool(PrefillFilter().filter(make.request(), [endpoint], make.facts())) is kept
