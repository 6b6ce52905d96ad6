from __future__ import annotations

import random
from collections import Counter

import pytest

from router.scheduling.pickers.near_max import NearMaxPicker
from tests.support import make

ENDPOINTS = [make.endpoint(name) for name in "abcd"]


@pytest.mark.parametrize(
    ("tolerance", "scores", "near"),
    [
        pytest.param(0.02, [1.0, 0.985, 0.98, 0.97], "abc", id="the-limit-itself-is-near"),
        pytest.param(0.02, [5.0, 5.01, 5.0, 0.0], "abc", id="near-ties"),
        pytest.param(0.5, [1.0, 0.6, 0.5, 0.4], "abc", id="a-wider-tolerance"),
        pytest.param(0.0, [1.0, 0.999, 1.0, 0.0], "ac", id="only-ties"),
    ],
)
def test_those_near_the_best_are_picked_as_often(
    tolerance: float, scores: list[float], near: str
) -> None:
    rng, picker = random.Random(7), NearMaxPicker(tolerance=tolerance)
    picks = Counter(picker.pick(ENDPOINTS, scores, rng)[0].address for _ in range(3000))
    assert set(picks) == set(near)
    assert all(abs(count - 3000 / len(near)) < 100 for count in picks.values())


def test_a_longer_list_has_those_near_in_any_order_then_the_others_by_total() -> None:
    rng, picker = random.Random(7), NearMaxPicker(max_num_of_endpoints=4)
    first: Counter[str] = Counter()
    for _ in range(1000):
        picks = [e.address for e in picker.pick(ENDPOINTS, [0.2, 0.99, 0.5, 1.0], rng)]
        assert picks[2:] == ["c", "a"]
        first[picks[0]] += 1
    assert abs(first["b"] - 500) < 60
