"""Where an endpoint's events come from, and which endpoint a topic means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from indexer.block import Holder
from indexer.central import Key
from indexer.feed import Source
from router.pool.endpoint import Endpoint, KvEvents
from router.producers.event_sources import Locator, polled, sources
from router.producers.prefix_parameters import KvEvents as Parameters
from tests.support import make

A, B = "10.0.0.1:8000", "10.0.0.2:8000"


def parameters(**fields: Any) -> Parameters:
    return msgspec.convert(fields, Parameters)


def found(endpoint: Endpoint, **fields: Any) -> list[tuple[str, str | None]]:
    streams = sources(endpoint, parameters(**fields), notified=True)
    return [(source.endpoint, source.replay) for source in streams]


def locator(*endpoints: Endpoint, **fields: Any) -> Locator:
    given = parameters(zmqEndpoint="tcp://*:5557", **fields)
    known: Sequence[Endpoint] = endpoints
    return Locator(given, lambda: known)


def test_replays_come_from_where_the_endpoint_says_or_the_configured_port_plus_rank() -> None:
    ports = {"podDiscoveryConfig": {"replaySocketPort": 7000}}
    named = make.endpoint(
        A,
        kv_events=(
            KvEvents(endpoint="tcp://h:1", replay="tcp://h:2"),
            KvEvents(endpoint="tcp://h:3", rank=1),
        ),
    )
    assert found(named) == [("tcp://h:1", "tcp://h:2"), ("tcp://h:3", None)]
    assert found(named, **ports) == [
        ("tcp://h:1", "tcp://h:2"),
        ("tcp://h:3", "tcp://10.0.0.1:7001"),
    ]
    assert found(make.endpoint(A)) == [("tcp://10.0.0.1:5557", None)]
    assert found(make.endpoint("[::1]:8000", rank=2), **ports) == [
        ("tcp://[::1]:5559", "tcp://[::1]:7002")
    ]


def test_an_engine_that_is_polled_is_not_connected_to() -> None:
    endpoint = make.endpoint(A, labels={"llm-d.ai/engine-type": "trtllm-serve"}, rank=1)
    assert polled(endpoint) == Source(Holder(A, 1), f"http://{A}/kv_cache_events")
    assert found(endpoint) == []
    assert polled(make.endpoint(A)) is None
    assert polled(make.endpoint(A, labels={"llm-d.ai/engine-type": "vllm"})) is None


@pytest.mark.parametrize("address", [A, "10.0.0.1"])
def test_a_topic_means_an_endpoint_by_address_or_by_an_ip_of_its_own(address: str) -> None:
    source = locator(make.endpoint(A), make.endpoint(B))(Key(address, "m", 3))
    assert source == Source(Holder(A, 3), "tcp://*:5557")


def test_an_ip_of_several_endpoints_means_none() -> None:
    find = locator(make.endpoint(A), make.endpoint("10.0.0.1:8001"))
    assert find(Key("10.0.0.1", "m", 0)) is None
    assert find(Key(A, "m", 0)) is not None
    assert find(Key("10.0.0.9:1", "m", 0)) is None


@pytest.mark.parametrize("address", ["[::1]:8000", "::1:8000", "::1"])
def test_an_ipv6_address_may_stand_without_brackets(address: str) -> None:
    source = locator(make.endpoint("[::1]:8000"))(Key(address, "m", 0))
    assert source is not None
    assert source.holder == Holder("[::1]:8000")


def test_an_endpoint_that_is_one_rank_keeps_it() -> None:
    source = locator(make.endpoint(A, rank=2))(Key(A, "m", 0))
    assert source is not None
    assert source.holder == Holder(A, 2)


def test_a_stream_over_the_common_address_is_replayed_from_the_endpoint() -> None:
    ports = {"podDiscoveryConfig": {"replaySocketPort": 7000}}
    source = locator(make.endpoint(A), **ports)(Key(A, "m", 1))
    assert source is not None
    assert source.replay == "tcp://10.0.0.1:7001"
    told = KvEvents(endpoint="tcp://h:1", replay="tcp://h:2")
    source = locator(make.endpoint(A, kv_events=(told,)), **ports)(Key(A, "m", 0))
    assert source is not None
    assert source.replay == "tcp://h:2"


def test_storage_that_all_share_is_no_endpoint() -> None:
    source = locator()(Key("SHARED_STORAGE", "m", 0))
    assert source is not None
    assert (source.holder.address, source.unordered) == ("SHARED_STORAGE@m", True)
    assert locator()(Key("SHARED_STORAGE", "", 0)) is None


def test_endpoints_that_come_and_go_are_followed() -> None:
    endpoints: list[Endpoint] = []
    find = Locator(parameters(zmqEndpoint="tcp://*:1"), lambda: tuple(endpoints))
    assert find(Key(A, "m", 0)) is None
    endpoints.append(make.endpoint(A))
    assert find(Key(A, "m", 0)) is not None


def test_the_filter_is_that_of_the_field_where_nothing_is_said() -> None:
    assert locator().topic_filter == "kv@"
    assert locator(topicFilter="kv@10.").topic_filter == "kv@10."
