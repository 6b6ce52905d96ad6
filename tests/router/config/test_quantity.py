from __future__ import annotations

import pytest

from router.config.quantity import quantity


@pytest.mark.parametrize(
    ("given", "amount"),
    [
        (0, 0),
        ("5000", 5000),
        ("1G", 10**9),
        ("512Mi", 512 * 1024**2),
        ("1.5k", 1500),
        ("1e3", 1000),
        ("1500m", 2),
        (1e3, 1000),
        (1.5, 2),
        ("1E", 10**18),
        ("2Pi", 2 * 1024**5),
        ("1e+3", 1000),
    ],
)
def test_amounts_are_read_as_kubernetes_reads_them(given: float | str, amount: int) -> None:
    assert quantity(given, "maxBytes") == amount


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (-1, "maxBytes must be non-negative"),
        ("-1G", "maxBytes must be non-negative"),
        ("1 GB", "such as 5000 or 1Gi"),
        ("much", "such as 5000 or 1Gi"),
        ("", "such as 5000 or 1Gi"),
    ],
)
def test_anything_else_is_refused(given: float | str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        quantity(given, "maxBytes")
