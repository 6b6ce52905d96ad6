from __future__ import annotations

from router.pool.topology import TopologyLabels
from router.producers.facts import Peer
from router.scheduling.scorers.topology_affinity import TopologyAffinityScorer
from tests.support import make

LABELS = TopologyLabels()
ENDPOINTS = [
    make.endpoint("host", labels={LABELS.hostname: "h", LABELS.rack: "r", LABELS.zone: "z"}),
    make.endpoint("rack", labels={LABELS.hostname: "i", LABELS.rack: "r", LABELS.zone: "z"}),
    make.endpoint("zone", labels={LABELS.zone: "z", LABELS.region: "eu"}),
    make.endpoint("region", labels={LABELS.zone: "y", LABELS.region: "eu"}),
    make.endpoint("far"),
]
PEER = make.endpoint(
    "peer",
    labels={LABELS.hostname: "h", LABELS.rack: "r", LABELS.zone: "z", LABELS.region: "eu"},
)


def test_nearer_endpoints_score_higher() -> None:
    facts = make.facts()
    facts.put(Peer(PEER))
    scores = TopologyAffinityScorer().score(make.request(), ENDPOINTS, facts)
    assert scores == [1.0, 0.2, 0.05, 0.02, 0.0]


def test_nobody_is_preferred_without_another_stage() -> None:
    assert TopologyAffinityScorer().score(make.request(), ENDPOINTS, make.facts()) == [0.0] * 5


def test_the_named_producer_says_which_labels_count() -> None:
    facts = make.facts()
    facts.put(Peer(PEER))
    facts.put(TopologyLabels(hostname=LABELS.region), "ours")
    ours = TopologyAffinityScorer(topology_producer_name="ours")
    assert ours.score(make.request(), ENDPOINTS, facts)[3] == 1.0
