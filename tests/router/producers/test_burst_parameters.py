from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.producers.burst_parameters import BurstPrefixParameters


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"windowDurationMs": 0}, "windowDurationMs"),
        ({"windowDurationMs": 10_001}, "windowDurationMs"),
        ({"maxPerReplica": 0}, "maxPerReplica is at least 1, or -1"),
        ({"maxBatchSize": 0}, "maxBatchSize is at least 1, or -1"),
        ({"maxBatchSize": -2}, "maxBatchSize"),
        ({"minColocateBlocks": -1}, "minColocateBlocks"),
        ({"balanceBy": "bytes"}, "balanceBy"),
        ({"maxPrefixTokensToMatch": 63}, "at least one block"),
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=said):
        msgspec.convert(given, BurstPrefixParameters)


@pytest.mark.parametrize(
    ("given", "blocks"),
    [({}, 2048), ({"maxPrefixTokensToMatch": 130}, 2), ({"blockSizeTokens": 8}, 2048)],
)
def test_of_a_prompt_so_many_blocks_are_looked_at(given: dict[str, Any], blocks: int) -> None:
    assert msgspec.convert(given, BurstPrefixParameters).max_blocks == blocks
