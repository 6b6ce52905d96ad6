from __future__ import annotations

from typing import Any

import pytest

from router.config.notes import NoteKind
from tests.router.config.loading import APPROX, PRECISE, SCORER, config

DETECTOR = "utilization-detector"
AFFINITY = "prefix-cache-affinity-filter"


def told(kind: str, parameters: dict[str, Any], *others: dict[str, Any]) -> dict[str, str]:
    """Parameter -> what is said of it."""
    loaded = config(plugins=[{"type": kind, "parameters": parameters}, *others])
    start = "$.plugins[0].parameters."
    said = (note for note in loaded.notes if note.kind is NoteKind.NO_EFFECT)
    return {note.path.removeprefix(start): note.text for note in said}


@pytest.mark.parametrize(
    ("kind", "parameters", "name", "said"),
    [
        (APPROX, {"blockSizeTokens": 16}, "blockSizeTokens", "blocks have 64 tokens at least"),
        (APPROX, {"blockSize": 32}, "blockSize", "blocks have 64 tokens at least"),
        (
            APPROX,
            {"blockSize": 64, "blockSizeTokens": 128},
            "blockSizeTokens",
            "blockSize counts",
        ),
        (
            APPROX,
            {"maxPrefixBlocksToMatch": 256},
            "maxPrefixBlocksToMatch",
            "maxPrefixTokensToMatch counts while it is not 0: 131072",
        ),
        (
            PRECISE,
            {"tokenProcessorConfig": {"blockSize": 32, "blockSizeTokens": 64}},
            "tokenProcessorConfig.blockSize",
            "blockSizeTokens counts",
        ),
        (
            DETECTOR,
            {"metricsStalenessThreshold": "200ms"},
            "metricsStalenessThreshold",
            "at least three intervals of scraping",
        ),
    ],
)
def test_a_value_that_another_one_stands_for_is_told(
    kind: str, parameters: dict[str, Any], name: str, said: str
) -> None:
    assert said in told(kind, parameters)[name]


def test_a_prediction_that_is_asked_for_is_inactive() -> None:
    plugin = {"type": AFFINITY, "parameters": {"ttftSource": "latencyPredictor"}}
    (note,) = (n for n in config(plugins=[plugin]).notes if n.kind is NoteKind.INACTIVE)
    assert note.path == "$.plugins[0].parameters.ttftSource"
    assert "latency is not predicted" in note.text


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (APPROX, {}),
        (APPROX, {"blockSizeTokens": 64}),
        (APPROX, {"maxPrefixBlocksToMatch": 256, "maxPrefixTokensToMatch": 0}),
        (PRECISE, {"tokenProcessorConfig": {"blockSizeTokens": 64}}),
        (AFFINITY, {"ttftSource": "prefillThroughput"}),
        (DETECTOR, {}),
        (DETECTOR, {"metricsStalenessThreshold": "5s"}),
        (SCORER, {"matchLengthWeight": 0.5}),
    ],
)
def test_a_value_that_counts_is_not_told(kind: str, parameters: dict[str, Any]) -> None:
    assert told(kind, parameters) == {}


def test_the_interval_of_the_metrics_is_the_configured_one() -> None:
    source = {"type": "metrics-data-source", "parameters": {"interval": "50ms"}}
    assert told(DETECTOR, {"metricsStalenessThreshold": "200ms"}, source) == {}
