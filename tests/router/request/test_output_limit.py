from __future__ import annotations

import pytest

from router.request.output_limit import output_limit
from tests.support import make


@pytest.mark.parametrize(
    ("body", "limit"),
    [
        (b'{"max_tokens": 7}', 7),
        (b'{"max_completion_tokens": 9, "max_tokens": 7}', 9),
        (b'{"max_output_tokens": 5}', 5),
        (b'{"max_tokens": 0}', 0),
        (b'{"max_tokens": null}', None),
        (b'{"max_tokens": "7"}', None),
        (b'{"max_tokens": true}', None),
        (b'{"max_tokens": -1}', None),
        (b'{"prompt": "x"}', None),
        (b"", None),
        (b"[1]", None),
    ],
)
def test_the_limit_is_what_the_engine_will_go_by(body: bytes, limit: int | None) -> None:
    assert output_limit(make.request(body=body)) == limit
