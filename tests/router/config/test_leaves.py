from __future__ import annotations

from router.config.leaves import leaves


def test_everything_without_parts_is_told_with_its_path() -> None:
    data = {"a": [1, {"b": None}], "c": {}, "d": "x"}
    assert list(leaves(data, "$")) == [("$.a[0]", 1), ("$.a[1].b", None), ("$.d", "x")]
    assert list(leaves(7)) == [("", 7)]
