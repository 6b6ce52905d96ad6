"""What NVIDIA's DCGM exporter says of the GPUs beside an engine."""

from __future__ import annotations

from router.pool.exposition import Page

KEY = "GPUUtilization"
"""The attribute that dcgm-extractor states (llm-d)."""

_FAMILY = "DCGM_FI_DEV_GPU_UTIL"


def gpu_utilization(body: bytes) -> float | None:
    """How busy the busiest GPU is, 0 to 1; None where the page does not say."""
    percents = Page(body).values(_FAMILY)
    return min(max(percents) / 100, 1.0) if percents else None
