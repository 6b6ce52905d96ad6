from __future__ import annotations

import pytest

from router.config.duration import seconds
from router.config.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2s", 2),
        ("400ms", 0.4),
        ("1m30s", 90),
        ("1.5h", 5400),
        ("100us", 1e-4),
        ("0", 0),
        (".5s", 0.5),
    ],
)
def test_go_durations_are_read(text: str, value: float) -> None:
    assert seconds(text, "$.x") == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "2", "s", "2 s", "-1s", "1d", "2sx"])
def test_anything_else_names_its_place(text: str) -> None:
    with pytest.raises(ConfigError, match=r"\$\.x"):
        seconds(text, "$.x")
