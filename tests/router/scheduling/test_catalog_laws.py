"""What every filter, scorer and picker of the catalog promises."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router import catalog
from router.pool.endpoint import ROLE_LABEL, Endpoint, EngineMetrics, Role
from router.producers.facts import Facts, HeldPrefix, InFlight, PrefixMatch
from router.scheduling.types import Filter, Picker, Scorer
from tests.support import make

ADDRESSES = st.integers(0, 30).map(lambda i: f"10.0.0.{i}:8000")

METRICS = st.none() | st.builds(
    EngineMetrics,
    waiting=st.none() | st.integers(0, 10**6),
    running=st.none() | st.integers(0, 10**4),
    kv_usage=st.none() | st.floats(0, 1),
)
ENDPOINTS = st.lists(
    st.builds(
        make.endpoint,
        address=ADDRESSES,
        metrics=METRICS,
        labels=st.just({}) | st.sampled_from(Role).map(lambda role: {ROLE_LABEL: role.value}),
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda endpoint: endpoint.address,
)


@st.composite
def known_facts(draw: Any) -> Facts:
    """Anything producers could state, and nothing."""
    facts = Facts()
    if draw(st.booleans()):
        total = draw(st.integers(0, 50))
        holds = st.builds(
            HeldPrefix,
            blocks=st.just(0),
            tiers=st.just({}),
            speculative=st.just(0),
            weighted=st.floats(0, total),
        )
        match = PrefixMatch(total, 16, draw(st.dictionaries(ADDRESSES, holds)))
        facts.put(match, "precise-prefix-cache-producer")
    if draw(st.booleans()):
        facts.put(InFlight(draw(st.dictionaries(ADDRESSES, st.integers(1, 1000)))), "load")
    return facts


def plugins(table: Any) -> Any:
    return [pytest.param(built(cls()), id=name) for name, cls in table.items()]


def built(parameters: Any) -> Any:
    """The plugin: most are their parameters."""
    build = getattr(parameters, "build", None)
    return build() if build else parameters


@pytest.mark.parametrize("scorer", plugins(catalog.SCORERS))
@given(endpoints=ENDPOINTS, facts=known_facts(), data=st.data())
def test_scores_lie_in_range_and_do_not_depend_on_the_order(
    scorer: Scorer, endpoints: list[Endpoint], facts: Facts, data: st.DataObject
) -> None:
    scores = scorer.score(make.request(), endpoints, facts)
    assert len(scores) == len(endpoints)
    assert all(0 <= score <= 1 for score in scores)
    order = data.draw(st.permutations(range(len(endpoints))))
    shuffled = scorer.score(make.request(), [endpoints[i] for i in order], facts)
    assert list(shuffled) == pytest.approx([scores[i] for i in order])


@pytest.mark.parametrize("filter_", plugins(catalog.FILTERS))
@given(endpoints=ENDPOINTS, facts=known_facts())
def test_filters_return_a_subset_in_order(
    filter_: Filter, endpoints: list[Endpoint], facts: Facts
) -> None:
    kept = filter_.filter(make.request(), endpoints, facts)
    rest = iter(endpoints)
    assert all(endpoint in rest for endpoint in kept)
    assert list(filter_.filter(make.request(), kept, facts)) == list(kept)


@pytest.mark.parametrize("picker", plugins(catalog.PICKERS))
@given(endpoints=ENDPOINTS, seed=st.integers(), data=st.data())
def test_pickers_choose_among_the_best_and_repeat_themselves(
    picker: Picker, endpoints: list[Endpoint], seed: int, data: st.DataObject
) -> None:
    scores = data.draw(st.lists(st.floats(0, 9), min_size=len(endpoints), max_size=len(endpoints)))
    picks = picker.pick(endpoints, scores, random.Random(seed))
    assert picks
    assert scores[endpoints.index(picks[0])] == max(scores)
    assert picker.pick(endpoints, scores, random.Random(seed)) == picks
