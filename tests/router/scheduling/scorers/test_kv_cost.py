from __future__ import annotations

from typing import Any

import pytest

from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, HeldPrefix, Tokens
from router.scheduling.scorers.kv_cost import KvCostScorer
from tests.support import make

NAMES = "abc"
IDLE = [make.endpoint(name) for name in NAMES]


def scores(
    facts: Facts, endpoints: list[Endpoint] = IDLE, /, **parameters: Any
) -> tuple[float, ...]:
    return tuple(KvCostScorer(**parameters).score(make.request(), endpoints, facts))


def prompt(facts: Facts, tokens: int) -> Facts:
    facts.put(Tokens(bytes(4 * tokens)))
    return facts


def tiered(**tiers: int) -> HeldPrefix:
    return HeldPrefix(sum(tiers.values()), tiers, sum(tiers.values()), 0.0)


def test_blocks_that_are_held_need_not_be_computed() -> None:
    facts = make.facts(total_blocks=10, a=make.held(10), b=make.held(5))
    # Costs 0, 5 and 10 blocks.
    assert scores(facts) == (1.0, 0.5, 0.0)


def test_a_guess_counts_as_device_memory() -> None:
    facts = make.facts(total_blocks=10, a=make.held(2, speculative=10), b=make.held(5))
    assert scores(facts) == (1.0, 0.5, 0.0)


@pytest.mark.parametrize(
    ("tiers", "parameters", "score"),
    [
        # Costs against 0 with everything and 8 with nothing.
        pytest.param({"gpu": 8}, {}, 1.0, id="device"),
        pytest.param({"npu": 8}, {}, 1.0, id="another-device"),
        pytest.param({"cpu": 8}, {}, 0.75, id="host"),
        pytest.param({"disk": 8}, {}, 0.25, id="disk"),
        pytest.param({"nvme": 8}, {}, 0.25, id="some-other-disk"),
        pytest.param({"gpu": 4, "cpu": 4}, {}, 0.875, id="mixed"),
        pytest.param({"shared_storage": 8}, {}, 0.0, id="shared-storage-is-off"),
        pytest.param(
            {"shared_storage": 8}, {"shared_cache_multiplier": 0.5}, 0.5, id="shared-storage"
        ),
        pytest.param({"cpu": 8}, {"host_cache_hit_weight": 0.5}, 0.5, id="host-weight"),
        pytest.param({"disk": 8}, {"disk_cache_hit_weight": 0.125}, 0.125, id="disk-weight"),
    ],
)
def test_a_block_is_worth_what_its_tier_is(
    tiers: dict[str, int], parameters: dict[str, float], score: float
) -> None:
    facts = make.facts(total_blocks=8, a=tiered(gpu=8), b=tiered(**tiers))
    assert scores(facts, **parameters) == (1.0, score, 0.0)


def test_tokens_in_flight_are_computed_first() -> None:
    facts = make.facts(
        total_blocks=10, in_flight_tokens={"a": 320, "b": 160}, a=make.held(10), c=make.held(5)
    )
    # a: 20 + 10 - 10, b: 10 + 10, c: 10 - 5.
    assert scores(facts) == (0.0, 0.0, 1.0)


def test_a_prompt_costs_its_tokens_even_where_they_fill_no_block() -> None:
    facts = prompt(make.facts(total_blocks=2, a=make.held(2), in_flight_tokens={"c": 8}), 40)
    # a: 2.5 - 2, b: 2.5, c: 2.5 + 0.5.
    assert scores(facts) == (1.0, 0.2, 0.0)


def test_credit_never_makes_a_cost_negative() -> None:
    facts = make.facts(total_blocks=4, a=make.held(4), b=make.held(3))
    # Worth 2: a 0, b 0, c 4.
    assert scores(facts, overlap_score_credit=2.0) == (1.0, 1.0, 0.0)


def test_credit_decays_with_what_is_ahead() -> None:
    facts = make.facts(total_blocks=10, in_flight_tokens={"a": 160}, a=make.held(10))
    # a has one prompt more ahead: worth 1 / (1 + 1) each. a: 20 - 5, b and c: 10.
    assert scores(facts, overlap_score_credit_decay=1.0) == (0.0, 1.0, 1.0)
    # Without decay a: 20 - 10 like the others.
    assert scores(facts) == (1.0, 1.0, 1.0)


def running(name: str, usage: float | None, **more: Any) -> Endpoint:
    return make.endpoint(name, kv_usage=usage, **{"gpu_blocks": 100, "block_size": 16, **more})


def test_blocks_of_running_requests_count_and_unknown_ones_are_the_mean() -> None:
    endpoints = [running("a", 0.2), running("b", 0.05, block_size=64), make.endpoint("c")]
    # a: 20 blocks, b: 5 of 64 tokens are 20 of 16, c: their mean.
    assert scores(make.facts(total_blocks=10), endpoints) == (1.0, 1.0, 1.0)
    endpoints = [running("a", 0.2), running("b", 0.1), make.endpoint("c")]
    assert scores(make.facts(total_blocks=10), endpoints) == (0.0, 1.0, 0.5)


def test_what_counts_how_much_is_a_parameter() -> None:
    endpoints = [running("a", 0.0), running("b", 0.1), running("c", 0.3)]
    facts = make.facts(total_blocks=10, in_flight={"a": 3}, b=make.held(10))
    # a: 10 + 0, b: 0 + 10, c: 10 + 30.
    assert scores(facts, endpoints) == (1.0, 1.0, 0.0)
    # Prefill twice: a: 20, b: 10, c: 50.
    assert scores(facts, endpoints, prefill_load_scale=2.0) == (0.75, 1.0, 0.0)
    # 10 blocks a request: a: 40, b: 10, c: 40.
    assert scores(facts, endpoints, active_request_weight=10.0) == (0.0, 1.0, 0.0)


def test_without_prefill_held_blocks_are_taken_off_running_ones() -> None:
    endpoints = [running("a", 0.2), running("b", 0.1), running("c", 0.1)]
    facts = make.facts(total_blocks=10, in_flight_tokens={"c": 99999}, a=make.held(15))
    # a: 20 - 15, b and c: 10.
    assert scores(facts, endpoints, track_prefill_tokens=False) == (1.0, 0.0, 0.0)
    # What is ahead does not count then, and so nothing decays.
    facts = make.facts(total_blocks=10, in_flight_tokens={"a": 99999}, a=make.held(15))
    decaying = {"track_prefill_tokens": False, "overlap_score_credit_decay": 1.0}
    assert scores(facts, endpoints, **decaying) == (1.0, 0.0, 0.0)


def test_all_are_equal_where_nothing_is_known() -> None:
    assert scores(make.facts()) == (1.0, 1.0, 1.0)
