from __future__ import annotations

import random
from collections import Counter

from router.scheduling.pickers.random_choice import RandomPicker
from tests.support import make

ENDPOINTS = [make.endpoint(name) for name in "abcd"]


def test_anyone_is_picked_as_often_whatever_the_totals() -> None:
    rng = random.Random(7)
    picks = Counter(
        RandomPicker().pick(ENDPOINTS, [9, 0, 0, 1], rng)[0].address for _ in range(4000)
    )
    assert all(abs(picks[name] - 1000) < 90 for name in "abcd")


def test_every_place_of_a_longer_list_is_drawn() -> None:
    rng, second = random.Random(7), Counter[str]()
    for _ in range(4000):
        second[RandomPicker(max_num_of_endpoints=2).pick(ENDPOINTS, [0] * 4, rng)[1].address] += 1
    assert all(abs(second[name] - 1000) < 90 for name in "abcd")
