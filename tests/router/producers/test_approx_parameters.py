from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.producers.approx_parameters import ApproxPrefixParameters


def parameters(**given: Any) -> ApproxPrefixParameters:
    return msgspec.convert(given, ApproxPrefixParameters)


@pytest.mark.parametrize(
    ("given", "published", "tokens"),
    [
        pytest.param({}, None, 64, id="16-is-raised-to-64"),
        pytest.param({}, 16, 64, id="published-16-too"),
        pytest.param({}, 128, 128, id="published"),
        pytest.param({"autoTune": False}, 128, 64, id="published-and-not-asked-for"),
        pytest.param({"autoTune": False, "blockSizeTokens": 96}, 128, 96, id="given"),
        pytest.param({"blockSizeTokens": 96}, 128, 128, id="published-before-given"),
        pytest.param({"blockSizeTokens": 96, "blockSize": 80}, None, 80, id="older-name"),
        pytest.param({"blockSizeTokens": 0}, None, 64, id="nothing"),
    ],
)
def test_the_block_size_is_published_or_given_and_at_least_64(
    given: dict[str, Any], published: int | None, tokens: int
) -> None:
    assert parameters(**given).block_tokens(published) == tokens


@pytest.mark.parametrize(
    ("given", "blocks"),
    [
        pytest.param({}, 2048, id="131072-tokens"),
        pytest.param({"maxPrefixTokensToMatch": 16384}, 256, id="tokens"),
        pytest.param({"maxPrefixTokensToMatch": 63}, 0, id="less-than-a-block"),
        pytest.param({"maxPrefixTokensToMatch": 0}, 2048, id="default-blocks"),
        pytest.param(
            {"maxPrefixTokensToMatch": 0, "maxPrefixBlocksToMatch": 7}, 7, id="given-blocks"
        ),
        pytest.param(
            {"maxPrefixTokensToMatch": 0, "maxPrefixBlocksToMatch": 0}, None, id="unlimited"
        ),
    ],
)
def test_tokens_bound_the_blocks_before_blocks_do(
    given: dict[str, Any], blocks: int | None
) -> None:
    assert parameters(**given).max_blocks(64) == blocks


@pytest.mark.parametrize(
    "given",
    [
        {"autoTune": False, "blockSizeTokens": 0},
        {"maxPrefixTokensToMatch": -1},
        {"maxPrefixBlocksToMatch": -1},
        {"lruCapacityPerServer": 0},
        {"blockSize": -1},
    ],
)
def test_what_cannot_be_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        parameters(**given)
