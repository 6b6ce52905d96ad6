from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.admission.probabilistic import ProbabilisticAdmitter
from router.errors import Saturated
from router.pool.endpoint import Endpoint
from router.producers.facts import Facts
from tests.support import make


def facts(seed: int = 1) -> Facts:
    return Facts(random.Random(seed))


@pytest.mark.parametrize(
    ("endpoints", "probability"),
    [
        # max(1/5, 0.08/0.8) = 0.2; 0.2^5 x 300 = 0.096
        pytest.param([make.endpoint(waiting=1, kv_usage=0.08)], 0.096, id="by-queue"),
        # max(0/5, 0.16/0.8) = 0.2
        pytest.param([make.endpoint(waiting=0, kv_usage=0.16)], 0.096, id="by-cache"),
        # mean(0.2, 0) = 0.1; 0.1^5 x 300 = 0.003
        pytest.param(
            [make.endpoint(waiting=1, kv_usage=0.0), make.endpoint("b:1", waiting=0, kv_usage=0.0)],
            0.003,
            id="mean-of-two",
        ),
        # mean(0, 1) = 0.5; 0.5^5 x 300 = 9.375
        pytest.param(
            [make.endpoint(waiting=0, kv_usage=0.0), make.endpoint("b:1")], 1.0, id="one-unknown"
        ),
        pytest.param([make.endpoint(waiting=0, kv_usage=0.0)], 0.0, id="idle"),
        pytest.param([make.endpoint(waiting=50, kv_usage=0.0)], 1.0, id="far-above"),
    ],
)
def test_the_probability_is_that_of_the_formula(
    endpoints: list[Endpoint], probability: float
) -> None:
    assert ProbabilisticAdmitter().probability(endpoints, facts()) == pytest.approx(probability)


def test_sheddable_requests_are_refused_as_often_as_that() -> None:
    # 0.25 x 2 = 0.5
    admitter = ProbabilisticAdmitter(power=1.0, k=2.0, queue_depth_threshold=4.0)
    endpoints, known = [make.endpoint(waiting=1, kv_usage=0.0)], facts()
    refused = 0
    for _ in range(1000):
        try:
            admitter.admit(make.request(priority=-1), endpoints, known)
        except Saturated:
            refused += 1
    assert 450 < refused < 550


@given(priority=st.integers(min_value=0), waiting=st.integers(0, 10**6))
def test_other_requests_are_never_refused(priority: int, waiting: int) -> None:
    endpoints = [make.endpoint(waiting=waiting)]
    ProbabilisticAdmitter().admit(make.request(priority=priority), endpoints, facts())


def test_equal_arguments_make_equal_choices() -> None:
    endpoints = [make.endpoint(waiting=1, kv_usage=0.2)]

    def choices() -> list[bool]:
        known, taken = facts(seed=7), []
        for _ in range(50):
            try:
                ProbabilisticAdmitter().admit(make.request(priority=-1), endpoints, known)
                taken.append(True)
            except Saturated:
                taken.append(False)
        return taken

    assert choices() == choices()
    assert len(set(choices())) == 2
