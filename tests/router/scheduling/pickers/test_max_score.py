from __future__ import annotations

import random
from collections import Counter

from router.scheduling.pickers.max_score import MaxScorePicker
from tests.support import make

ENDPOINTS = [make.endpoint(name) for name in "abcdef"]


def test_the_best_wins() -> None:
    picks = MaxScorePicker().pick(ENDPOINTS, [1, 2, 9, 3, 4, 5], random.Random(1))
    assert [endpoint.address for endpoint in picks] == ["c"]


def test_ties_spread_evenly() -> None:
    rng, picker = random.Random(7), MaxScorePicker()
    first = Counter(
        picker.pick(ENDPOINTS, [0.9, 0.9, 0.4, 0.4, 0.4, 0.1], rng)[0].address for _ in range(3000)
    )
    assert set(first) == {"a", "b"}
    assert abs(first["a"] - 1500) < 90


def test_a_longer_list_is_ordered_and_spreads_its_ties_too() -> None:
    rng, picker = random.Random(7), MaxScorePicker(max_num_of_endpoints=3)
    third: Counter[str] = Counter()
    for _ in range(3000):
        picks = picker.pick(ENDPOINTS, [0.9, 0.9, 0.4, 0.4, 0.4, 0.1], rng)
        assert {endpoint.address for endpoint in picks[:2]} == {"a", "b"}
        third[picks[2].address] += 1
    assert all(abs(third[name] - 1000) < 90 for name in "cde")


def test_a_list_of_no_length_has_one_entry() -> None:
    assert (
        len(MaxScorePicker(max_num_of_endpoints=0).pick(ENDPOINTS, [1] * 6, random.Random())) == 1
    )
