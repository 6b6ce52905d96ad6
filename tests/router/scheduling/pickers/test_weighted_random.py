from __future__ import annotations

import random
from collections import Counter

from router.scheduling.pickers.weighted_random import WeightedRandomPicker
from tests.support import make

ENDPOINTS = [make.endpoint(name) for name in "abcd"]


def firsts(scores: list[float], count: int = 4000) -> Counter[str]:
    rng, picker = random.Random(7), WeightedRandomPicker()
    return Counter(picker.pick(ENDPOINTS, scores, rng)[0].address for _ in range(count))


def test_the_chance_is_the_share_of_the_total() -> None:
    picks = firsts([4, 3, 1, 0])
    assert abs(picks["a"] - 2000) < 100
    assert abs(picks["b"] - 1500) < 100
    assert abs(picks["c"] - 500) < 70
    assert picks["d"] == 0


def test_small_totals_keep_their_proportion() -> None:
    picks = firsts([4e-9, 3e-9, 1e-9, 0])
    assert abs(picks["a"] - 2000) < 100
    assert picks["d"] == 0


def test_without_any_total_all_are_alike() -> None:
    assert all(abs(count - 1000) < 90 for count in firsts([0, 0, 0, 0]).values())


def test_those_without_a_total_come_last_in_a_longer_list() -> None:
    rng, last = random.Random(7), Counter[str]()
    picker = WeightedRandomPicker(max_num_of_endpoints=4)
    for _ in range(1000):
        picks = [endpoint.address for endpoint in picker.pick(ENDPOINTS, [1, 0, 2, 0], rng)]
        assert set(picks[:2]) == {"a", "c"}
        last[picks[3]] += 1
    assert abs(last["b"] - 500) < 60
