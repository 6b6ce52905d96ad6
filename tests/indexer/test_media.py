from __future__ import annotations

import pytest

from indexer.media import tier_of


@pytest.mark.parametrize(
    ("media", "tier"),
    [
        (("", "npu", "GPU", "xpu", "HBM", "device"), "gpu"),
        (("cpu", "CPU_PINNED", "host", "memory"), "cpu"),
        (("disk", "ssd", "NVMe", "nof_ssd", "DFS"), "disk"),
        (("tape",), "tape"),
        (("SHARED_STORAGE",), "shared_storage"),
    ],
)
def test_many_words_mean_one_tier(media: tuple[str, ...], tier: str) -> None:
    assert {tier_of(medium) for medium in media} == {tier}
