from __future__ import annotations

import pytest

from router.pool.dialects import Family
from router.pool.metric_specs import family


@pytest.mark.parametrize(
    ("spec", "read"),
    [
        ("vllm:num_requests_waiting", Family("vllm:num_requests_waiting")),
        (" name{} ", Family("name")),
        ("name{a=b}", Family("name", {"a": "b"})),
        ('name{a="b c", d = e ,}', Family("name", {"a": "b c", "d": "e"})),
        ("name{request_type=waiting}", Family("name", {"request_type": "waiting"})),
    ],
)
def test_a_metric_is_read_with_the_labels_it_must_have(spec: str, read: Family) -> None:
    assert family(spec) == read


@pytest.mark.parametrize("spec", ["", "1name", "name{", "name}", "name{a}", "name{a=b}c", "a b"])
def test_anything_else_is_refused(spec: str) -> None:
    with pytest.raises(ValueError, match="expected"):
        family(spec)
