"""What every filter, scorer and picker of the catalog promises."""

from __future__ import annotations

import random
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router import catalog
from router.config.plugins import made
from router.pool.endpoint import ROLE_LABEL, Endpoint, EngineMetrics, Role
from router.pool.topology import TopologyLabels
from router.producers.facts import (
    EncoderCacheMatch,
    Facts,
    HeldPrefix,
    InFlight,
    Peer,
    PrefixMatch,
    Tokens,
    Uncached,
)
from router.request.types import Request
from router.scheduling.types import Filter, Picker, Scorer
from tests.support import make

PARAMETERS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "by-label": [{"label": "tier", "validValues": ["a"]}, {"label": "tier", "allowsNoLabel": True}],
    "concurrency-detector": [{}, {"concurrencyMode": "hybrid", "maxTokenConcurrency": 500}],
    "context-length-aware": [{}, {"enableFiltering": True}],
    "endpoint-attribute-filter": [
        {
            "attribute": key,
            "onMissing": "Fail",
            "algorithm": {"type": "threshold", "threshold": {"operator": "LessThan", "value": 0.5}},
        }
        for key in ("GPUUtilization", "KVCacheUsagePercent")
    ],
    "endpoint-attribute-scorer": [
        {"attributeKey": "GPUUtilization", "algorithm": {"type": "linear_lower_is_better"}},
        {
            "attributeKey": "WaitingQueueSize",
            "algorithm": {
                "type": "linear_higher_is_better",
                "normalization": {"fixedRange": {"min": 1, "max": 8}},
            },
        },
    ],
    "header-label-affinity-scorer": [{"headerName": "x-tier", "labelKey": "tier"}],
    "kv-affinity-scorer": [
        {},
        {"mode": "load_gated", "wDisk": 0.5},
        {"loadWeight": 0, "overlapCredit": 1e9, "hitRateThreshold": 0.2},
    ],
    "load-gate-filter": [{}, {"topN": 3}],
    "kv-cost-scorer": [
        {},
        {"trackPrefillTokens": False, "activeRequestWeight": 2},
        {"overlapScoreCreditDecay": 0.5, "sharedCacheMultiplier": 0.1},
    ],
    "label-selector-filter": [
        {},
        {"matchLabels": {"tier": "a"}},
        {"matchExpressions": [{"key": "tier", "operator": "NotIn", "values": ["a"]}]},
    ],
    "prefix-cache-affinity-filter": [{}, {"maxTTFTPenaltyMs": 1, "explorationProbability": 0.5}],
    "session-affinity-filter": [{}, {"strategy": "session_id"}],
    "session-affinity-scorer": [{}, {"strategy": "session_id"}],
    "topology-affinity-filter": [{}, {"minAffinity": "zone"}],
    "utilization-filter": [
        {},
        {
            "conditions": [
                {"metric": "active-requests", "maxValue": 3},
                {"metric": "running-requests", "maxValue": 5},
                {"metric": "waiting-queue", "maxValue": 5},
                {"metric": "kv-cache-utilization", "maxValue": 0.5},
            ]
        },
    ],
}
"""Parameters to try, of plugins that cannot do without or do other things with them."""

ADDRESSES = st.integers(0, 9).map(lambda i: f"10.0.0.{i}:8000")
ADAPTERS = st.lists(st.sampled_from(["m", "sql", "chat"]), max_size=2).map(tuple)
NOW_S = 1000.0

METRICS = st.builds(
    EngineMetrics,
    waiting=st.none() | st.integers(0, 10) | st.integers(0, 10**6),
    running=st.none() | st.integers(0, 10) | st.integers(0, 10**4),
    kv_usage=st.none() | st.floats(0, 1),
    block_size=st.none() | st.sampled_from([16, 64]),
    gpu_blocks=st.none() | st.integers(1, 10**5),
    running_adapters=ADAPTERS,
    waiting_adapters=ADAPTERS,
    max_adapters=st.none() | st.integers(0, 4),
    scraped_at=st.sampled_from([NOW_S - 100, NOW_S - 1]),
)


def labels() -> st.SearchStrategy[dict[str, str]]:
    places = TopologyLabels()
    few = st.sampled_from(["a", "b"])
    lengths = st.sampled_from(["0-100", "50-50", "1000-9000", "9-1", "long"])
    roles = st.sampled_from(Role).map(lambda role: role.value)
    optional = dict.fromkeys((places.hostname, places.zone, "tier"), few)
    return st.fixed_dictionaries(
        {}, optional={**optional, ROLE_LABEL: roles, "llm-d.ai/context-length-range": lengths}
    )


ENDPOINTS = st.lists(
    st.builds(
        make.endpoint,
        address=ADDRESSES,
        metrics=st.none() | METRICS,
        labels=labels(),
        attributes=st.just({}) | st.fixed_dictionaries({"GPUUtilization": st.floats(0, 1)}),
    ),
    min_size=1,
    max_size=6,
    unique_by=lambda endpoint: endpoint.address,
)


@st.composite
def held(draw: Any, total: int) -> HeldPrefix:
    tiers = draw(st.dictionaries(st.sampled_from(["gpu", "cpu", "disk"]), st.integers(0, 9)))
    blocks = sum(tiers.values())
    return HeldPrefix(blocks, tiers, blocks + draw(st.integers(0, 3)), draw(st.floats(0, total)))


@st.composite
def known_facts(draw: Any) -> list[object]:
    """Anything producers could state, and nothing."""
    counts = st.dictionaries(ADDRESSES, st.integers(1, 1000))
    total = draw(st.integers(0, 50))
    media = draw(st.dictionaries(ADDRESSES, st.floats(0, 8)))
    possible = [
        PrefixMatch(total, 16, draw(st.dictionaries(ADDRESSES, held(total)))),
        InFlight(draw(counts), draw(counts), draw(counts)),
        Uncached(draw(counts)),
        EncoderCacheMatch(media, max(media.values(), default=0) + draw(st.floats(0, 8))),
        Tokens(bytes(4 * draw(st.integers(0, 200)))),
        Peer(draw(st.builds(make.endpoint, labels=labels()))),
    ]
    return [fact for fact in possible if draw(st.booleans())]


def stated(facts: list[object]) -> Facts:
    """They, with chance at its beginning."""
    known = Facts(random.Random(5), NOW_S)
    for fact in facts:
        known.put(fact, "some-producer")
    return known


SESSION = {"x-session-token": b64encode(b"default/10.0.0.3:8000-rank-0").decode()}

REQUESTS = st.builds(make.request, headers=st.sampled_from([{}, {"x-tier": "a"}, SESSION]))


def plugins(table: Mapping[str, type]) -> Mapping[str, Any]:
    """Every plugin of a table, with each set of parameters to try."""
    built = {}
    for name, cls in table.items():
        for number, parameters in enumerate(PARAMETERS.get(name, [{}])):
            plugin = made(name, name, "$", msgspec.convert(parameters, cls))
            built[f"{name} {number}"] = plugin.value
    return built


# All plugins see the same examples: to draw them takes longer than to try them.
SCORERS: Mapping[str, Scorer] = plugins(catalog.SCORERS)
FILTERS: Mapping[str, Filter] = plugins(catalog.FILTERS)
PICKERS: Mapping[str, Picker] = plugins(catalog.PICKERS)


@given(endpoints=ENDPOINTS, facts=known_facts(), request_=REQUESTS, data=st.data())
def test_scores_lie_in_range_and_do_not_depend_on_the_order(
    endpoints: list[Endpoint], facts: list[object], request_: Request, data: st.DataObject
) -> None:
    order = data.draw(st.permutations(range(len(endpoints))))
    for name, scorer in SCORERS.items():
        scores = scorer.score(request_, endpoints, stated(facts))
        assert len(scores) == len(endpoints), name
        assert all(0 <= score <= 1 for score in scores), name
        assert scorer.score(request_, endpoints, stated(facts)) == scores, name
        shuffled = scorer.score(request_, [endpoints[i] for i in order], stated(facts))
        assert list(shuffled) == pytest.approx([scores[i] for i in order]), name


@given(scraped=st.lists(METRICS, min_size=1, max_size=6), request_=REQUESTS)
def test_an_endpoint_of_which_nothing_is_known_is_not_better_than_all_others(
    scraped: list[EngineMetrics], request_: Request
) -> None:
    others = [make.endpoint(f"e{i}", metrics=metrics) for i, metrics in enumerate(scraped)]
    for name, scorer in SCORERS.items():
        *known, unknown = scorer.score(request_, [*others, make.endpoint("new")], make.facts())
        assert unknown <= max(known) + 1e-9, name


@given(endpoints=ENDPOINTS, facts=known_facts(), request_=REQUESTS)
def test_stale_metrics_are_worth_no_more_than_none(
    endpoints: list[Endpoint], facts: list[object], request_: Request
) -> None:
    known = stated(facts)
    without = [
        msgspec.structs.replace(e, metrics=None)
        if e.metrics is not None and not e.metrics.tell(NOW_S)
        else e
        for e in endpoints
    ]
    for name, scorer in SCORERS.items():
        scores = scorer.score(request_, endpoints, known)
        assert scores == scorer.score(request_, without, known), name


@given(endpoints=ENDPOINTS, facts=known_facts(), request_=REQUESTS, data=st.data())
def test_filters_return_a_subset_in_order_that_does_not_depend_on_the_order(
    endpoints: list[Endpoint], facts: list[object], request_: Request, data: st.DataObject
) -> None:
    shuffled = data.draw(st.permutations(endpoints))
    for name, filter_ in FILTERS.items():
        kept = filter_.filter(request_, endpoints, stated(facts))
        rest = iter(endpoints)
        assert all(endpoint in rest for endpoint in kept), name
        again = filter_.filter(request_, shuffled, stated(facts))
        assert {e.address for e in again} == {e.address for e in kept}, name


@given(endpoints=ENDPOINTS, facts=known_facts(), request_=REQUESTS)
def test_what_a_filter_kept_it_keeps(
    endpoints: list[Endpoint], facts: list[object], request_: Request
) -> None:
    for name, filter_ in FILTERS.items():
        kept = filter_.filter(request_, endpoints, stated(facts))
        assert list(filter_.filter(request_, kept, stated(facts))) == list(kept), name


def scores_for(data: st.DataObject, endpoints: Sequence[Endpoint]) -> list[float]:
    return data.draw(st.lists(st.floats(0, 9), min_size=len(endpoints), max_size=len(endpoints)))


@given(endpoints=ENDPOINTS, seed=st.integers(), data=st.data())
def test_pickers_choose_among_the_endpoints_and_repeat_themselves(
    endpoints: list[Endpoint], seed: int, data: st.DataObject
) -> None:
    scores = scores_for(data, endpoints)
    for name, picker in PICKERS.items():
        picks = picker.pick(endpoints, scores, random.Random(seed))
        assert len(picks) == 1, name
        assert picks[0] in endpoints, name
        assert picker.pick(endpoints, scores, random.Random(seed)) == picks, name


@given(endpoints=ENDPOINTS, count=st.integers(-1, 9), seed=st.integers(), data=st.data())
def test_pickers_return_as_many_different_endpoints_as_they_are_told(
    endpoints: list[Endpoint], count: int, seed: int, data: st.DataObject
) -> None:
    scores = scores_for(data, endpoints)
    for name, cls in catalog.PICKERS.items():
        picker = msgspec.convert({"maxNumOfEndpoints": count}, cls)
        picks = picker.pick(endpoints, scores, random.Random(seed))
        assert len(picks) == min(max(count, 1), len(endpoints)), name
        assert len({endpoint.address for endpoint in picks}) == len(picks), name
        assert all(endpoint in endpoints for endpoint in picks), name
