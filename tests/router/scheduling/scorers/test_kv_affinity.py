"""Both of Motor's scores, with numbers worked by hand."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.producers.facts import Facts, HeldPrefix, InFlight, PrefixMatch, Tokens
from router.scheduling.pickers.max_score import MaxScorePicker
from router.scheduling.scorers.kv_affinity import KvAffinityScorer
from tests.support import make

SIZE = 128


def tiered(**tiers: int) -> HeldPrefix:
    blocks = sum(tiers.values())
    return HeldPrefix(blocks, tiers, blocks, float(blocks))


def facts(
    prompt: int | None,
    load: dict[str, int] | None = None,
    held: dict[str, int] | None = None,
    /,
    **held_by: HeldPrefix,
) -> Facts:
    """A prompt of so many tokens, tokens to be computed and held by address."""
    known = Facts()
    known.put(PrefixMatch((prompt or 0) // SIZE, SIZE, held_by))
    known.put(InFlight({}, load or {}, held or {}))
    if prompt is not None:
        known.put(Tokens(bytes(4 * prompt)))
    return known


def scores(known: Facts, names: str = "abc", /, **parameters: Any) -> list[float]:
    scorer = msgspec.convert(parameters, KvAffinityScorer)
    return list(scorer.score(make.request(), [make.endpoint(name) for name in names], known))


def linear(*costs: float) -> list[Any]:
    """The lowest 1, the highest 0, the rest in proportion."""
    low, high = min(costs), max(costs)
    return [pytest.approx((high - cost) / (high - low)) for cost in costs]


WORKED = {"a": tiered(gpu=3, cpu=2), "b": tiered(gpu=2), "c": tiered(disk=5)}
LOAD = {"a": 600, "b": 100}
"""A prompt of 640 tokens in blocks of 128: a matches 640 of them, b 256, c none while disk is 0."""


@pytest.mark.parametrize(
    ("parameters", "costs"),
    [
        pytest.param({}, (0 + 600, 384 + 100, 640 + 0), id="defaults"),
        pytest.param({"loadWeight": 0}, (0, 384, 640), id="pure-affinity"),
        pytest.param({"loadWeight": 2}, (1200, 584, 640), id="balance-first"),
        pytest.param({"loadWeight": 1e9}, (6e11, 384 + 1e11, 640), id="load-is-all"),
        pytest.param({"overlapCredit": 0}, (640 + 600, 640 + 100, 640), id="no-credit"),
        pytest.param({"overlapCredit": 0.5}, (320 + 600, 512 + 100, 640), id="half-credit"),
        pytest.param({"overlapCredit": 1e9}, (600, 100, 640), id="a-cost-is-never-negative"),
        pytest.param({"prefillLoadScale": 0}, (600, 100, 0), id="load-alone"),
        pytest.param({"prefillLoadScale": 10}, (600, 3940, 6400), id="prefill-is-dear"),
        pytest.param({"wDisk": 1}, (600, 484, 0), id="disk-counts"),
        pytest.param({"wDisk": 0.5}, (600, 484, 640 - 320), id="disk-counts-half"),
        pytest.param({"wCpu": 0}, (256 + 600, 484, 640), id="cpu-does-not"),
        pytest.param({"wCpu": 0.25}, (640 - 448 + 600, 484, 640), id="cpu-counts-a-quarter"),
        pytest.param({"wNpu": 0}, (384 + 600, 640 + 100, 640), id="npu-does-not"),
        pytest.param({"wNpu": 1e9}, (600, 100, 640), id="weights-save-no-more-than-the-prompt"),
        pytest.param({"wNpu": 0, "wCpu": 0}, (600, 100, 0), id="nothing-counts-so-load-does"),
    ],
)
def test_the_unified_cost(parameters: dict[str, float], costs: tuple[float, ...]) -> None:
    assert scores(facts(640, LOAD, **WORKED), **parameters) == linear(*costs)


@pytest.mark.parametrize(
    ("parameters", "load", "expected"),
    [
        pytest.param({}, LOAD, [1.0, 0.5, 0.0], id="by-match"),
        pytest.param({"wDisk": 1}, LOAD, [0.5, 0.0, 1.0], id="ties-by-load"),
        pytest.param({"wDisk": 1}, {}, [1.0, 0.0, 1.0], id="equal-ones-share-a-place"),
        pytest.param({"wCpu": 0, "wNpu": 0}, LOAD, linear(600, 100, 0), id="no-match"),
    ],
)
def test_the_places_of_load_gated(
    parameters: dict[str, float], load: dict[str, int], expected: list[float]
) -> None:
    known = facts(640, load, **WORKED)
    assert scores(known, mode="load_gated", **parameters) == expected


def test_a_single_candidate_is_the_best() -> None:
    for mode in ("unified", "load_gated"):
        assert scores(facts(640, LOAD, **WORKED), "a", mode=mode) == [1.0]


def test_what_requests_hold_counts_a_little() -> None:
    # Costs 640 + 300 + 0.15 x 2000 = 1240, 640 + 500 = 1140 and 640 - 128.
    known = facts(640, {"a": 300, "b": 500}, {"a": 2000}, c=tiered(gpu=1))
    assert scores(known) == linear(1240, 1140, 512)


@pytest.mark.parametrize("mode", ["unified", "load_gated"])
def test_a_prompt_shorter_than_a_block_goes_by_load(mode: str) -> None:
    known = facts(127, {"a": 10}, b=tiered(gpu=9))
    assert scores(known, "ab", mode=mode, loadWeight=0) == [0.0, 1.0]
    assert scores(facts(128, {"a": 10}, a=tiered(gpu=1)), "ab", mode=mode, loadWeight=0) == [1, 0]


def test_a_match_longer_than_the_prompt_saves_the_prompt() -> None:
    # Both match all of the 200 tokens, though 2 blocks have 256 and 9 have 1152.
    known = facts(200, {"a": 50}, a=tiered(gpu=2), b=tiered(gpu=9))
    assert scores(known) == linear(50, 0, 200)
    assert scores(known, mode="load_gated") == [0.5, 1.0, 0.0]


@pytest.mark.parametrize(
    ("threshold", "by_load"), [(0.39, False), (0.4, False), (0.41, True), (0.9, True)], ids=str
)
def test_below_the_hit_rate_threshold_load_decides(threshold: float, by_load: bool) -> None:
    known = facts(640, {"a": 100}, a=tiered(gpu=2))
    expected = linear(100, 0) if by_load else linear(384, 640)
    assert scores(known, "ab", loadWeight=0, hitRateThreshold=threshold) == expected


def test_without_tokens_requests_are_balanced() -> None:
    known = make.facts(8, SIZE, {"a": 2, "b": 1}, a=tiered(gpu=8))
    assert scores(known) == [0.0, 0.5, 1.0]


def test_other_words_for_media_count_as_what_they_mean() -> None:
    known = facts(640, a=tiered(npu=1, memory=1), b=tiered(gpu=1, cpu=1), c=tiered(ssd=1))
    assert scores(known) == linear(384, 384, 640)


def test_rounding_is_to_whole_tokens() -> None:
    known = facts(1000, a=tiered(gpu=1), b=tiered(gpu=2))
    # 0.3 x 128 = 38.4 and 0.6 x 128 = 76.8.
    assert scores(known, wNpu=0.3) == linear(1000 - 38, 1000 - 77, 1000)


def test_affinity_wins_where_it_saves_more_than_the_load_costs() -> None:
    endpoints = [make.endpoint(name) for name in "abc"]
    for weight, best in ((0.0, "a"), (1.0, "b"), (2.0, "b"), (100.0, "c")):
        rated = scores(facts(640, LOAD, **WORKED), loadWeight=weight)
        (pick,) = MaxScorePicker().pick(endpoints, rated, make.facts().rng)
        assert pick.address == best
