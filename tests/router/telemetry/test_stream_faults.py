"""What is wrong with the index's input is said in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from indexer.budget import STORED_BYTES
from indexer.feed import Source
from indexer.storage import shared_by
from router.producers.prefix_parameters import Bounds
from router.telemetry.stream_faults import faults
from tests.router.producers.test_prefix import A, B, Fixture, stored
from tests.support import make

FULL = {"group_idx": 0, "kv_cache_spec_kind": "full_attention"}


def told(fixture: Fixture) -> list[str]:
    return list(faults(fixture.prefix))


def test_streams_that_hear_everything_have_no_fault() -> None:
    fixture = Fixture()
    fixture.announce(A, stored([1], range(16)))
    assert told(fixture) == []


def test_a_stream_that_never_connected_is_named() -> None:
    fixture = Fixture()
    index = fixture.prefix.index
    source = index.feeds()[0].source
    index.close(index.feeds()[0])
    index.open(source)
    assert told(fixture) == [
        f"endpoint {A}: nothing connected yet for its events, tcp://10.0.0.1:5557"
    ]


def test_an_endpoint_that_is_heard_another_way_is_not_missed() -> None:
    fixture = Fixture()
    central = Source(fixture.feeds[A].source.holder, "tcp://*:5557")
    fixture.prefix.index.open(central)
    assert len(told(fixture)) == 1
    fixture.announce(A, stored([1], range(16)))
    assert told(fixture) == []


def test_a_lost_stream_is_stale() -> None:
    fixture = Fixture()
    fixture.announce(A, stored([1], range(16)))
    fixture.feeds[A].lost()
    assert told(fixture) == [f"endpoint {A}: its event stream is lost"]


@pytest.mark.parametrize(
    ("first", "then", "why"),
    [
        (3, [], "joined late, and the engine is not asked to replay"),
        (0, [4], "3 messages were missed"),
    ],
    ids=["late", "gap"],
)
def test_a_partial_stream_says_why(first: int, then: Sequence[int], why: str) -> None:
    fixture = Fixture()
    for seq in (first, *then):
        fixture._seq[A] = seq - 1
        fixture.announce(A, stored([1], range(16)))
    assert told(fixture) == [f"endpoint {A}: its event stream is partial: {why}"]


def test_events_that_cannot_be_read_make_it_partial() -> None:
    fixture = Fixture()
    fixture.announce(A, stored([1], range(16), block_size=-1))
    assert told(fixture) == [f"endpoint {A}: its event stream is partial: 1 left out as bad_event"]


def test_topics_that_are_not_wanted_are_named_until_one_is() -> None:
    fixture = Fixture(kvEventsConfig={"topicFilter": "kv@"})
    for _ in range(2):
        fixture.announce(A, stored([1], range(16)), topic=b"other")
    assert told(fixture)[-1] == (
        f"endpoint {A}: 2 messages left out: topic 'other' does not start with 'kv@'"
    )
    fixture.announce(A, stored([1], range(16)))
    assert not [fault for fault in told(fixture) if "topic" in fault]


def test_messages_whose_model_nobody_told_are_counted() -> None:
    fixture = Fixture()
    fixture.announce(A, stored([1], range(16)), topic=b"")
    assert told(fixture)[-1] == (
        f"endpoint {A}: 1 messages wait: neither topic nor endpoint names their model"
    )


def test_blocks_that_do_not_fit_are_told_with_both_sizes() -> None:
    fixture = Fixture()
    fixture.announce(A, stored([1], range(24), block_size=24))
    said = f"endpoint {A}: its blocks of 24 tokens do not fit the index's of 16"
    assert told(fixture) == [said]
    fixture.announce(B, stored([1], range(16), **FULL))
    window = {"group_idx": 1, "kv_cache_spec_kind": "mamba", "block_size": 40}
    fixture.announce(B, stored([2], range(40), **window))
    assert told(fixture)[1] == f"endpoint {B}: its blocks of 40 tokens do not fit the index's of 16"


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"group_idx": 0, "kv_cache_spec_kind": "novel"}, "unsupported_group"),
        ({"group_idx": 1, "kv_cache_spec_kind": "full_attention"}, "missing_group"),
    ],
    ids=["kind", "number"],
)
def test_groups_that_cannot_be_judged_are_told(fields: dict[str, Any], reason: str) -> None:
    fixture = Fixture()
    fixture.announce(A, stored([1], range(16), **fields))
    assert told(fixture) == [f"endpoint {A}: its KV cache groups cannot be judged: {reason}"]


def test_blocks_without_room_are_counted() -> None:
    fixture = Fixture(bounds=Bounds(2 * STORED_BYTES, STORED_BYTES))
    fixture.announce(A, stored([1, 2, 3], range(48)))
    assert told(fixture) == [f"endpoint {A}: no room in the index for 2 of its blocks"]


def test_sources_without_a_socket_and_ranks_are_named() -> None:
    fixture = Fixture(make.endpoint(A, rank=1))
    source = fixture.feeds[A].source
    fixture.prefix.unusable = lambda: {source: "not a TCP port"}
    assert told(fixture) == [
        f"endpoint {A} rank 1: no socket for tcp://10.0.0.1:5558: not a TCP port"
    ]


def test_what_the_common_address_leaves_out_is_named() -> None:
    fixture = Fixture(kvEventsConfig={"zmqEndpoint": "tcp://*:5557", "discoverPods": False})
    prefix = fixture.prefix
    prefix.central = prefix.open_central(fixture.pool.snapshot)
    assert prefix.central is not None
    for topic in (b"kv@10.9.9.9:1@m", *(b"other%d" % n for n in range(6)), b"kv@nonsense"):
        prefix.central.receive([topic, bytes(8), b"\x92\x01\x90"], 1.0, 1)
    assert told(fixture) == [
        "kv events: addresses of no endpoint: 10.9.9.9:1 (1)",
        "kv events: topics that are left out: "
        "'other0' (1), 'other1' (1), 'other2' (1), 'other3' (1), 3 more",
    ]


def test_shared_storage_is_never_complete_and_no_fault_for_it() -> None:
    fixture = Fixture()
    feed = fixture.prefix.index.open(Source(shared_by("m"), "tcp://x", unordered=True))
    feed.connected()
    feed.receive([b"kv@OBJECT_STORE@m", bytes(8), b"\x92\x01\x90"], 1.0)
    assert told(fixture) == []
