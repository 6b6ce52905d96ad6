"""Event streams as people and gauges see them."""

from __future__ import annotations

from indexer.block import Trust
from indexer.catch_up import MAX_WAITING_MESSAGES
from indexer.frames import Message
from indexer.intake import MAX_UNNAMED_MESSAGES
from router.telemetry import streams
from router.telemetry.metrics import Metrics
from tests.router.producers.test_prefix import A, B, Fixture, stored


def test_every_stream_tells_how_far_it_is_and_what_it_lost() -> None:
    fixture = Fixture()
    fixture.announce(A, stored([1], range(16)))
    fixture._seq[A] += 2
    fixture.announce(A)
    told = streams.describe(fixture.feeds[A])
    assert (told["trust"], told["stats"].last_seq) == (Trust.PARTIAL, 3)
    assert (told["stats"].gaps, told["stats"].missed) == (1, 2)
    assert told["faults"] == ["its event stream is partial: 2 messages were missed"]
    assert (told["waiting"], told["replay"], told["restored"]) == (0, None, False)


def test_counters_carry_the_endpoint_and_its_rank() -> None:
    fixture = Fixture()
    metrics = Metrics(lambda _: True)
    metrics.watch(lambda: streams.samples(fixture.prefix))
    fixture.announce(A, stored([1], range(16)))
    fixture._seq[A] += 2
    fixture.announce(A)
    fixture.feeds[B].lost()

    def value(name: str, address: str = A) -> float | None:
        labels = {"producer": "prefix", "model_server_endpoint": address, "rank": "0"}
        return metrics.registry.get_sample_value(f"warmroute_kv_stream_{name}", labels)

    assert (value("messages_total"), value("gaps_total"), value("missed_total")) == (2, 1, 2)
    assert (value("last_seq"), value("lag_seconds")) == (3, 0.0)
    assert (value("last_seq", B), value("losses_total", B)) == (None, 1)
    by_trust = {"producer": "prefix", "trust": "partial"}
    assert metrics.registry.get_sample_value("warmroute_kv_streams", by_trust) == 2
    events, pod = "llm_d_epp_kv_cache_events", {"pod_identifier": A}
    received = f"{events}_messages_received_total"
    assert metrics.registry.get_sample_value(received, pod) == 2
    assert metrics.registry.get_sample_value(f"{events}_active_subscribers") == 2


def test_what_waits_to_be_applied_is_told_with_its_bound_and_what_zmq_could_not_do() -> None:
    fixture = Fixture()
    metrics = Metrics(lambda _: True)
    metrics.watch(lambda: streams.samples(fixture.prefix))
    fixture.prefix.zmq_errors = lambda: {(A, "connect"): 3}
    for _ in range(2):
        fixture.announce(A, stored([1], range(16)), topic=b"")
    value = metrics.registry.get_sample_value
    events = "llm_d_epp_kv_cache_events"
    assert value(f"{events}_pool_queue_depth") == 2
    assert value(f"{events}_pool_capacity") == 2 * (MAX_WAITING_MESSAGES + MAX_UNNAMED_MESSAGES)
    labels = {"pod_identifier": A, "operation": "connect"}
    assert value(f"{events}_zmq_errors_total", labels) == 3
    fixture.feeds[A].base_model = "m"
    assert value(f"{events}_pool_queue_depth") == 0
    fixture.feeds[B].catch_up.waiting.push(Message(7, b""))
    assert value(f"{events}_pool_queue_depth") == 1


def test_what_came_over_the_common_address_and_belongs_to_nobody_is_shown() -> None:
    fixture = Fixture(kvEventsConfig={"zmqEndpoint": "tcp://*:5557"})
    prefix = fixture.prefix
    assert streams.describe_central(prefix) is None
    prefix.central = prefix.open_central(fixture.pool.snapshot)
    assert prefix.central is not None
    prefix.central.receive([b"kv@10.9.9.9:1@m", bytes(8), b"\x92\x01\x90"], 1.0, 1)
    assert streams.describe_central(prefix) == {
        "endpoint": "tcp://*:5557",
        "rejected": {"unknown_endpoint": 1},
        "unknown_addresses": {"10.9.9.9:1": 1},
        "topics_left_out": {},
    }
