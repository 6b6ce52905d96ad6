"""How near two endpoints are to each other, by their labels."""

from __future__ import annotations

import enum

import msgspec

from router.pool.endpoint import Endpoint


class Nearness(enum.IntEnum):
    """The smallest thing two endpoints share; a higher one is nearer."""

    NONE = 0
    REGION = 1
    ZONE = 2
    RACK = 3
    HOST = 4


class TopologyLabels(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The labels that say where an endpoint runs (Kubernetes).

    Attributes:
        hostname: Names its host.
        rack: Names its rack.
        zone: Names its zone.
        region: Names its region.
    """

    hostname: str = "kubernetes.io/hostname"
    rack: str = "topology.kubernetes.io/rack"
    zone: str = "topology.kubernetes.io/zone"
    region: str = "topology.kubernetes.io/region"


def nearness(one: Endpoint, other: Endpoint, labels: TopologyLabels) -> Nearness:
    """A label that one of them lacks is not shared."""
    for level, label in (
        (Nearness.HOST, labels.hostname),
        (Nearness.RACK, labels.rack),
        (Nearness.ZONE, labels.zone),
        (Nearness.REGION, labels.region),
    ):
        value = one.labels.get(label)
        if value and value == other.labels.get(label):
            return level
    return Nearness.NONE
