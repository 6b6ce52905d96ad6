from __future__ import annotations

import pytest

from router.pool.dcgm import gpu_utilization


@pytest.mark.parametrize(
    ("page", "utilization"),
    [
        (b'DCGM_FI_DEV_GPU_UTIL{gpu="0"} 25\nDCGM_FI_DEV_GPU_UTIL{gpu="1"} 80\n', 0.8),
        (b"DCGM_FI_DEV_GPU_UTIL 0\n", 0.0),
        (b"DCGM_FI_DEV_GPU_UTIL 120\n", 1.0),
        (b"DCGM_FI_DEV_GPU_UTIL NaN\n", None),
        (b"DCGM_FI_DEV_GPU_UTILIZATION 3\n", None),
        (b"", None),
        (b"<html>", None),
    ],
)
def test_the_busiest_gpu_counts(page: bytes, utilization: float | None) -> None:
    assert gpu_utilization(page) == utilization
