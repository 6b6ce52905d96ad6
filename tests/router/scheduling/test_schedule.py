from __future__ import annotations

import random
from collections.abc import Sequence
from typing import ClassVar

import msgspec
import pytest

from router.errors import NoEndpoints, Saturated
from router.pool.endpoint import ROLE_LABEL, Endpoint
from router.producers.facts import Facts, HeldBack, KeptOut
from router.request.types import Request
from router.scheduling.filters.decode import DecodeFilter
from router.scheduling.pickers.max_score import MaxScorePicker
from router.scheduling.schedule import schedule
from router.scheduling.scorers.active_request import ActiveRequestScorer
from router.scheduling.scorers.prefix_cache import PrefixCacheScorer
from router.scheduling.types import Dropped, NamedFilter, NamedScorer, Outcome, Profile
from tests.support import make


class NoneFits(msgspec.Struct, frozen=True):
    """A load filter that finds everybody too busy."""

    by_load: ClassVar[bool] = True
    why: ClassVar[str] = "busy"

    def filter(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[Endpoint]:
        return []


class OutOfRange(msgspec.Struct, frozen=True):
    """A scorer that breaks its promise."""

    def score(
        self, request: Request, endpoints: Sequence[Endpoint], facts: Facts
    ) -> Sequence[float]:
        return [-3.0, 7.0][: len(endpoints)]


def decide(profile: Profile, *endpoints: Endpoint, facts: Facts | None = None) -> Outcome:
    known = facts or make.facts()
    return schedule(profile, make.request(), endpoints, known, random.Random(0))


def profile(*scorers: NamedScorer, filters: Sequence[NamedFilter] = ()) -> Profile:
    return Profile("default", tuple(filters), scorers, MaxScorePicker())


def test_totals_are_weighted_sums() -> None:
    rated = profile(
        NamedScorer("prefix", PrefixCacheScorer(), 3.0),
        NamedScorer("active", ActiveRequestScorer(), 2.0),
    )
    facts = make.facts(total_blocks=4, in_flight={"a": 2}, a=make.held(3))
    decision = decide(rated, make.endpoint("a"), make.endpoint("b"), facts=facts)
    assert decision.endpoint.address == "a"
    assert decision.totals == {"a": 2.25, "b": 2.0}
    assert decision.scores == {"prefix": {"a": 0.75, "b": 0.0}, "active": {"a": 0.0, "b": 1.0}}


def test_scores_out_of_range_are_clamped() -> None:
    decision = decide(
        profile(NamedScorer("bad", OutOfRange(), 2.0)), make.endpoint("a"), make.endpoint("b")
    )
    assert decision.totals == {"a": 0.0, "b": 2.0}


def test_the_decision_says_what_each_filter_dropped() -> None:
    prefill = make.endpoint("p", labels={ROLE_LABEL: "prefill"})
    roles = profile(filters=[NamedFilter("decode-filter", DecodeFilter())])
    decision = decide(roles, prefill, make.endpoint("d"))
    assert decision.endpoint.address == "d"
    assert [(d.filter, d.addresses) for d in decision.dropped] == [("decode-filter", ("p",))]


def test_an_empty_pool_has_no_endpoints() -> None:
    with pytest.raises(NoEndpoints):
        decide(profile())


def test_a_role_filter_that_leaves_nobody_means_no_endpoints() -> None:
    roles = profile(filters=[NamedFilter("decode-filter", DecodeFilter())])
    with pytest.raises(NoEndpoints, match="decode-filter"):
        decide(roles, make.endpoint("p", labels={ROLE_LABEL: "prefill"}))


def test_a_load_filter_that_leaves_nobody_means_saturated() -> None:
    with pytest.raises(Saturated, match="busy"):
        decide(profile(filters=[NamedFilter("busy", NoneFits())]), make.endpoint("a"))


@pytest.mark.parametrize(
    ("roles", "out", "picked", "dropped"),
    [
        pytest.param(["decode", "decode"], {"a"}, "b", [("kept-out", ("a",))], id="another"),
        pytest.param(
            ["decode", "prefill"], {"a"}, "a", [("decode-filter", ("b",))], id="no-other-decodes"
        ),
        pytest.param(["decode", "prefill"], {"a", "b"}, "a", [("decode-filter", ("b",))], id="all"),
        pytest.param(["prefill", "decode"], {"c"}, "b", [("decode-filter", ("a",))], id="gone"),
    ],
)
def test_who_failed_is_picked_only_where_nobody_else_can(
    roles: list[str], out: set[str], picked: str, dropped: list[tuple[str, tuple[str, ...]]]
) -> None:
    pool = [make.endpoint(a, labels={ROLE_LABEL: r}) for a, r in zip("ab", roles, strict=True)]
    facts = make.facts()
    facts.put(KeptOut(frozenset(out)))
    decision = decide(
        profile(filters=[NamedFilter("decode-filter", DecodeFilter())]), *pool, facts=facts
    )
    assert decision.endpoint.address == picked
    assert [(d.filter, d.addresses) for d in decision.dropped] == dropped


def test_who_failed_does_not_stand_in_for_others_that_are_too_busy() -> None:
    facts = make.facts()
    facts.put(KeptOut(frozenset({"a"})))
    busy = profile(filters=[NamedFilter("busy", NoneFits())])
    with pytest.raises(Saturated):
        decide(busy, make.endpoint("a"), make.endpoint("b"), facts=facts)


NEW = make.facts(in_flight={"a": 5})
NEW.put(HeldBack(frozenset({"new"})))
BY_LOAD = profile(NamedScorer("active", ActiveRequestScorer()))


def test_an_endpoint_that_is_held_back_is_not_picked_while_there_are_others() -> None:
    decision = decide(BY_LOAD, make.endpoint("a"), make.endpoint("new"), facts=NEW)
    assert decision.endpoint.address == "a"
    assert decision.dropped == (
        Dropped("newcomers", ("new",), "it just came and is given work step by step"),
    )


def test_an_endpoint_that_is_held_back_is_picked_where_filters_leave_nobody_else() -> None:
    roles = profile(filters=[NamedFilter("decode-filter", DecodeFilter())])
    prefill = make.endpoint("p", labels={ROLE_LABEL: "prefill"})
    assert decide(roles, prefill, make.endpoint("new"), facts=NEW).endpoint.address == "new"
    assert decide(BY_LOAD, make.endpoint("new"), facts=NEW).dropped == ()


def test_a_refusal_tells_who_was_dropped_by_what_and_why() -> None:
    prefill = make.endpoint("p", labels={ROLE_LABEL: "prefill"})
    filters = (NamedFilter("decode", DecodeFilter()), NamedFilter("load", NoneFits()))
    with pytest.raises(Saturated) as refused:
        decide(profile(filters=filters), make.endpoint("a"), prefill)
    assert list(refused.value.dropped) == [
        Dropped("decode", ("p",), DecodeFilter.why),
        Dropped("load", ("a",), NoneFits.why),
    ]
