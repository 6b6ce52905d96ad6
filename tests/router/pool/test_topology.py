from __future__ import annotations

import pytest

from router.pool.endpoint import Endpoint
from router.pool.topology import Nearness, TopologyLabels, nearness
from tests.support import make

LABELS = TopologyLabels()


def placed(**places: str) -> Endpoint:
    return make.endpoint(labels={getattr(LABELS, level): at for level, at in places.items()})


HERE = placed(hostname="h1", rack="r1", zone="z1", region="eu")


@pytest.mark.parametrize(
    ("other", "level"),
    [
        pytest.param(HERE, Nearness.HOST, id="host"),
        pytest.param(
            placed(hostname="h2", rack="r1", zone="z1", region="eu"), Nearness.RACK, id="rack"
        ),
        pytest.param(
            placed(hostname="h2", rack="r2", zone="z1", region="eu"), Nearness.ZONE, id="zone"
        ),
        pytest.param(placed(zone="z2", region="eu"), Nearness.REGION, id="region"),
        pytest.param(placed(region="us"), Nearness.NONE, id="another-region"),
        pytest.param(placed(hostname="h1"), Nearness.HOST, id="only-the-host-is-known"),
        pytest.param(make.endpoint(), Nearness.NONE, id="no-labels"),
    ],
)
def test_the_smallest_place_that_two_share_counts(other: Endpoint, level: Nearness) -> None:
    assert nearness(HERE, other, LABELS) is level
    assert nearness(other, HERE, LABELS) is level


def test_what_both_lack_is_not_shared() -> None:
    assert nearness(make.endpoint("a"), make.endpoint("b"), LABELS) is Nearness.NONE
    assert nearness(placed(hostname=""), placed(hostname=""), LABELS) is Nearness.NONE


def test_other_labels_may_say_it() -> None:
    labels = TopologyLabels(hostname="node")
    one, other = (make.endpoint(name, labels={"node": "n1"}) for name in "ab")
    assert nearness(one, other, labels) is Nearness.HOST
