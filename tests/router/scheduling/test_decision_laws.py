"""What every decider, detector and handler of one profile promises."""

from __future__ import annotations

import random
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from router import catalog
from router.pool.endpoint import Endpoint
from router.producers.facts import HeldPrefix, PrefixMatch, Tokens
from router.request.types import Request
from router.scheduling.deciders.prefix_based_pd import PrefixBasedPdDecider
from router.scheduling.profiles.data_parallel import DataParallelProfileHandler
from router.scheduling.profiles.header import HeaderProfileHandler
from router.scheduling.profiles.single import SingleProfileHandler
from router.scheduling.types import NamedScorer, Profile, ProfileHandler
from tests.router.scheduling.test_laws import ENDPOINTS, REQUESTS, known_facts, stated
from tests.support import make

DECIDERS = {
    "always-disagg-multimodal-decider": [{}],
    "always-disagg-pd-decider": [{}],
    "prefix-based-pd-decider": [{}, {"nonCachedTokens": 16}, {"promptTokens": 64}],
}
DETECTORS = {
    "concurrency-detector": [{}, {"concurrencyMode": "hybrid", "maxTokenConcurrency": 500}],
    "utilization-detector": [{}, {"queueDepthThreshold": 1, "kvCacheUtilThreshold": 0.1}],
}
HANDLERS: list[ProfileHandler] = [
    SingleProfileHandler(),
    HeaderProfileHandler(),
    DataParallelProfileHandler(primary_port=9000),
]


def built(table: Any, chosen: Any) -> list[Any]:
    assert set(chosen) == set(table)
    return [msgspec.convert(each, table[name]) for name, some in chosen.items() for each in some]


@given(endpoints=ENDPOINTS, facts=known_facts(), request_=REQUESTS)
def test_a_decider_answers_equal_questions_equally(
    endpoints: list[Endpoint], facts: list[object], request_: Request
) -> None:
    for decider in built(catalog.DECIDERS, DECIDERS):
        for endpoint in (None, *endpoints):
            answer = decider.disaggregates(request_, endpoint, stated(facts))
            assert answer in (True, False), decider
            assert decider.disaggregates(request_, endpoint, stated(facts)) == answer, decider


@given(
    tokens=st.integers(0, 5000),
    threshold=st.integers(0, 1000),
    least=st.integers(0, 1000),
    cached=st.lists(st.integers(0, 300), min_size=2, max_size=2),
)
def test_who_holds_more_is_never_relieved_of_a_prefill_that_another_does(
    tokens: int, threshold: int, least: int, cached: list[int]
) -> None:
    decider = PrefixBasedPdDecider(non_cached_tokens=threshold, prompt_tokens=least)
    answers = []
    for blocks in sorted(cached):
        held = {"a:1": HeldPrefix(blocks, {"gpu": blocks}, blocks, 0.0)} if blocks else {}
        facts = stated([Tokens(bytes(4 * tokens)), PrefixMatch(tokens // 16, 16, held)])
        answers.append(decider.disaggregates(make.request(), make.endpoint("a:1"), facts))
    assert answers[0] or not answers[1]


@given(endpoints=ENDPOINTS, facts=known_facts())
def test_a_pool_is_as_full_as_its_endpoints_are_on_average(
    endpoints: list[Endpoint], facts: list[object]
) -> None:
    for detector in built(catalog.DETECTORS, DETECTORS):
        assert detector.saturation([], stated(facts)) == 1, detector
        each = [detector.saturation([endpoint], stated(facts)) for endpoint in endpoints]
        whole = detector.saturation(endpoints, stated(facts))
        assert min(each) >= 0, detector
        assert min(each) - 1e-9 <= whole <= max(each) + 1e-9, detector


@given(endpoints=ENDPOINTS, facts=known_facts(), request_=REQUESTS, seed=st.integers())
def test_a_handler_of_one_profile_picks_among_the_endpoints_and_repeats_itself(
    endpoints: list[Endpoint], facts: list[object], request_: Request, seed: int
) -> None:
    queue = NamedScorer("queue-scorer", catalog.SCORERS["queue-scorer"](), 2.0)  # type: ignore[arg-type]
    picker = catalog.PICKERS["max-score-picker"]()
    profiles = {"default": Profile("default", (), (queue,), picker)}
    for handler in HANDLERS:
        once, again = (
            handler.decide(request_, profiles, endpoints, stated(facts), random.Random(seed))
            for _ in range(2)
        )
        assert once == again, handler
        assert once.endpoint in endpoints, handler
        if isinstance(handler, DataParallelProfileHandler):
            assert once.headers["x-data-parallel-host-port"] == once.endpoint.address
            assert [d.rpartition(":")[2] for d in once.addresses] == ["9000"]
