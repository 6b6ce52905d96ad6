"""Media: where blocks lie, in the words of engines and pools, and the tiers these words mean."""

from __future__ import annotations

from collections.abc import Mapping

from indexer.block import CPU, GPU

DISK = "disk"

LOWER = (CPU, DISK)
"""Tiers below an engine's own memory, upper first."""

TIERS = (GPU, *LOWER)

_TIERS: Mapping[str, str] = {
    **dict.fromkeys(("", "npu", "gpu", "xpu", "hbm", "device"), GPU),
    **dict.fromkeys(("cpu", "cpu_pinned", "host", "memory"), CPU),
    **dict.fromkeys(("disk", "ssd", "nvme", "nof_ssd", "dfs"), DISK),
}


def tier_of(medium: str) -> str:
    """The tier that a medium is; one that nobody knows is a tier of its own."""
    name = medium.lower()
    return _TIERS.get(name, name)
