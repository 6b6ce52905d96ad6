from __future__ import annotations

from typing import Any

import pytest

from router.pool.endpoint import Endpoint
from router.pool.topology import TopologyLabels
from router.producers.facts import Peer
from router.scheduling.filters.topology_affinity import TopologyAffinityFilter
from tests.support import make

LABELS = TopologyLabels()


def placed(name: str, host: str, zone: str = "z1") -> Endpoint:
    return make.endpoint(name, labels={LABELS.hostname: host, LABELS.zone: zone})


ENDPOINTS = [placed("a", "h1"), placed("b", "h2"), placed("c", "h3", "z2"), make.endpoint("d")]


def kept(peer: Endpoint | None, **parameters: Any) -> str:
    facts = make.facts()
    if peer is not None:
        facts.put(Peer(peer))
    left = TopologyAffinityFilter(**parameters).filter(make.request(), ENDPOINTS, facts)
    return "".join(endpoint.address for endpoint in left)


@pytest.mark.parametrize(
    ("level", "left"), [("host", "a"), ("rack", "a"), ("zone", "ab"), ("region", "ab")]
)
def test_keeps_what_is_near_enough(level: str, left: str) -> None:
    assert kept(placed("p", "h1"), min_affinity=level) == left


def test_all_stay_where_nobody_is_near() -> None:
    assert kept(placed("p", "h9", "z9")) == "abcd"


def test_all_stay_without_another_stage() -> None:
    assert kept(None) == "abcd"


def test_the_named_producer_says_which_labels_count() -> None:
    facts = make.facts()
    facts.put(Peer(make.endpoint("p", labels={"node": "n1"})))
    facts.put(TopologyLabels(), "usual")
    facts.put(TopologyLabels(hostname="node"), "ours")
    endpoints = [make.endpoint("a", labels={"node": "n1"}), make.endpoint("b")]
    ours = TopologyAffinityFilter(topology_producer_name="ours")
    assert ours.filter(make.request(), endpoints, facts) == endpoints[:1]
    assert TopologyAffinityFilter().filter(make.request(), endpoints, facts) == endpoints
