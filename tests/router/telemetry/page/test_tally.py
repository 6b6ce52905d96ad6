from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import BadRequest
from router.telemetry.comparison import Comparison
from router.telemetry.decisions import StageRecord
from router.telemetry.page.tally import (
    GUESS,
    INTERVAL_S,
    KEPT,
    MAX_TIERS,
    OTHER,
    SAMPLED,
    Share,
    Tally,
    quantile,
    since,
)
from tests.support import make
from tests.support.records import A, B, cached, record


def test_requests_are_counted_by_what_became_of_them() -> None:
    tally = Tally(0.0, Comparison())
    for status in (200, 503, None):
        tally.routed(record())
        tally.ended(record(status=status))
    tally.refused(record(endpoint=None), BadRequest("no"))
    totals = tally.totals
    assert (totals.requests, totals.refused, totals.failed) == (4, 1, 2)
    assert totals.shares == {A: Share(3)}


def test_reusable_tokens_are_counted_by_tier_and_what_nobody_confirmed_as_a_guess() -> None:
    tally = Tally(0.0, Comparison())
    tally.routed(cached(100, {"gpu": 2, "cpu": 1}, predicted=64))
    tally.routed(cached(50, {}, predicted=0, address=B))
    assert tally.totals.tiers == {"gpu": 32, "cpu": 16, GUESS: 16}
    assert (tally.totals.prompt_tokens, tally.totals.predicted_tokens) == (150, 64)
    assert tally.totals.shares == {A: Share(1), B: Share(1)}


def test_the_last_token_that_is_computed_anyway_belongs_to_no_tier() -> None:
    tally = Tally(0.0, Comparison())
    tally.routed(cached(48, {"gpu": 3}, predicted=32))
    assert tally.totals.tiers == {"gpu": 32}


def test_engines_may_name_only_so_many_tiers() -> None:
    tally = Tally(0.0, Comparison())
    for i in range(2 * MAX_TIERS):
        tally.routed(cached(48, {f"tier-{i}": 2}, predicted=32))
    assert len(tally.totals.tiers) == MAX_TIERS + 1
    assert tally.totals.tiers[OTHER] == MAX_TIERS * 32


def test_where_another_endpoint_computes_the_prompt_its_cache_counts() -> None:
    tally = Tally(0.0, Comparison())
    prefill = StageRecord(profile="prefill", endpoints=(B,))
    held = cached(100, {"cpu": 4}, predicted=64, address=B).prefix
    request = cached(100, {"gpu": 1}, predicted=64)
    request.prefix, request.prefill = held, prefill
    tally.routed(request)
    assert tally.totals.shares == {A: Share(1), B: Share(1)}
    assert tally.totals.tiers == {"cpu": 64}


def test_prompts_whose_tokens_are_not_known_count_as_requests_only() -> None:
    tally = Tally(0.0, Comparison())
    tally.routed(record(predicted_cached_tokens=64))
    assert (tally.totals.prompt_tokens, tally.totals.predicted_tokens) == (0, 0)


def test_a_copy_is_kept_every_interval_and_only_so_many() -> None:
    tally = Tally(0.0, Comparison())
    for i in range(KEPT + 5):
        tally.routed(record(took_ms=float(i)))
        tally.tick((i + 1) * INTERVAL_S - 0.1, ())
        tally.tick((i + 1) * INTERVAL_S, ())
    assert len(tally.samples) == KEPT
    first, last = tally.samples[0].totals, tally.samples[-1].totals
    assert (first.requests, last.requests) == (6, KEPT + 5)
    assert tally.samples[-1].p50_ms == KEPT + 4


def test_durations_are_kept_of_a_bounded_number_of_decisions() -> None:
    tally = Tally(0.0, Comparison())
    for i in range(SAMPLED + 100):
        tally.routed(record(took_ms=float(i)))
    tally.tick(INTERVAL_S, ())
    assert tally.samples[-1].p95_ms == int(0.95 * SAMPLED)


class Engine:
    """One endpoint whose counters a test moves."""

    def __init__(self) -> None:
        self.comparison = Comparison()
        self.tally = Tally(0.0, self.comparison)
        self._now = 0.0

    def look(self, queries: float, hits: float, *, start: float = 1.0) -> None:
        self._now += INTERVAL_S
        figures = {"prefix_queries": queries, "prefix_hits": hits, "process_start": start}
        self.tally.tick(self._now, [make.endpoint(A, **figures)])

    def answer(self, tokens: int, blocks: dict[str, int], predicted: int) -> None:
        self.comparison.ended(cached(tokens, blocks, predicted=predicted, status=200))


def test_predictions_are_held_against_what_engines_count_from_the_first_look_on() -> None:
    engine = Engine()
    engine.answer(1000, {"gpu": 10}, 160)
    engine.look(100.0, 40.0)
    engine.answer(50, {"gpu": 1, "cpu": 1}, 32)
    engine.look(150.0, 56.0)
    assert engine.tally.totals.checked == Share(0, 50, 16, 50.0, 16.0)
    assert engine.tally.totals.shares[A] == Share(0, 50, 16, 50.0, 16.0)


def test_counters_are_noted_before_the_first_copy_is_due() -> None:
    engine = Engine()
    engine.tally.tick(
        0.1, [make.endpoint(A, prefix_queries=100.0, prefix_hits=40.0, process_start=1.0)]
    )
    engine.answer(50, {"gpu": 1}, 16)
    engine.look(150.0, 56.0)
    assert engine.tally.totals.checked == Share(0, 50, 16, 50.0, 16.0)


def test_after_a_restart_an_engine_counts_from_zero() -> None:
    engine = Engine()
    engine.look(100.0, 40.0)
    engine.answer(50, {"gpu": 1}, 16)
    engine.look(30.0, 10.0, start=2.0)
    assert engine.tally.totals.checked == Share(0, 50, 16, 30.0, 10.0)


def test_an_endpoint_that_does_not_count_hits_is_left_out() -> None:
    engine = Engine()
    for now in (2.0, 4.0):
        engine.tally.tick(now, [make.endpoint(A), make.endpoint(B, waiting=1)])
        engine.answer(50, {"gpu": 1}, 16)
    assert engine.tally.totals.checked == Share()


def test_an_endpoint_that_is_gone_is_forgotten() -> None:
    tally = Tally(0.0, Comparison())
    tally.routed(record())
    tally.routed(record(endpoint=B))
    tally.tick(2.0, [make.endpoint(B)])
    assert set(tally.totals.shares) == {B}


def test_what_happened_since_is_the_difference() -> None:
    tally = Tally(0.0, Comparison())
    tally.routed(cached(100, {"gpu": 2}, predicted=32))
    before = tally.totals.copy()
    tally.routed(cached(60, {"cpu": 1}, predicted=16, address=B))
    recent = since(tally.totals, before)
    assert (recent.requests, recent.prompt_tokens, recent.predicted_tokens) == (1, 60, 16)
    assert recent.tiers == {"gpu": 0, "cpu": 16}
    assert recent.shares == {A: Share(), B: Share(1)}


def test_an_endpoint_that_came_back_began_anew() -> None:
    now, before = Tally(0.0, Comparison()).totals.copy(), Tally(0.0, Comparison()).totals.copy()
    now.shares[A], before.shares[A] = Share(2, 20, 10), Share(9, 90, 50)
    assert since(now, before).shares == {A: Share(2, 20, 10)}


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [([], 0.5, None), ([7.0], 0.99, 7.0), ([1.0, 2.0, 3.0], 0.5, 2.0), ([1.0, 2.0], 1.0, 2.0)],
    ids=["none", "one", "the middle", "the last"],
)
def test_a_quantile_is_one_of_the_values(
    values: list[float], share: float, expected: float | None
) -> None:
    assert quantile(values, share) == expected


@given(st.lists(st.tuples(st.sampled_from([A, B]), st.integers(0, 400)), max_size=30))
def test_the_parts_add_up_to_the_whole(requests: list[tuple[str, int]]) -> None:
    tally = Tally(0.0, Comparison())
    for address, tokens in requests:
        predicted = tokens // 2
        tally.routed(cached(tokens, {"gpu": predicted // 32}, predicted=predicted, address=address))
    totals = tally.totals
    assert sum(share.requests for share in totals.shares.values()) == totals.requests
    assert sum(totals.tiers.values()) == totals.predicted_tokens <= totals.prompt_tokens
    assert msgspec.json.decode(msgspec.json.encode(totals), type=type(totals)) == totals
