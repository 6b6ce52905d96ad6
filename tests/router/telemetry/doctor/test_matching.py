from __future__ import annotations

import pytest

from router.pool.endpoint import ServedModels
from router.request.usage import Usage
from router.telemetry.doctor.window import WINDOW_S
from tests.router.producers.test_prefix import A, B, stored
from tests.router.telemetry.doctor.ward import Ward
from tests.support import make


def test_blocks_that_do_not_fit_are_named_with_both_sizes() -> None:
    ward = Ward()
    ward.fixture.announce(A, stored([1], range(24), block_size=24))
    finding = ward.only()
    assert (finding.code, finding.about) == ("block-size-differs", A)
    assert (finding.evidence["engine"], finding.evidence["index"]) == (24, 16)
    assert "24" in finding.fix


@pytest.mark.parametrize(("size", "fits"), [(8, True), (16, True), (64, True), (24, False)])
def test_a_scrape_tells_of_the_block_size_before_any_event(size: int, fits: bool) -> None:
    ward = Ward()
    ward.scrape(A, block_size=size)
    assert ward.codes() == ([] if fits else [("block-size-differs", A)])


def test_events_of_another_model_are_named_with_both_names() -> None:
    ward = Ward()
    ward.fixture.pool.served(A, ServedModels(names=("m",)))
    ward.fixture.announce(A, stored([1], range(16)), topic=b"kv@x@other")
    ward.answered(predicted_cached_tokens=64)
    finding = ward.only()
    assert finding.code == "model-differs"
    assert finding.evidence == {"events": ["other"], "requests": ["m"], "served": ["m"]}


def test_events_under_an_alias_or_the_root_are_of_the_same_model() -> None:
    ward = Ward()
    ward.fixture.pool.served(A, ServedModels(names=("alias", "m"), root="org/m"))
    ward.fixture.announce(A, stored([1], range(16)), topic=b"kv@x@org/m")
    assert ward.codes() == []


def test_a_topic_that_the_filter_leaves_out_is_named_with_it() -> None:
    ward = Ward(kvEventsConfig={"topicFilter": "kv@"})
    ward.fixture.announce(A, stored([1], range(16)), topic=b"events")
    finding = ward.only()
    assert (finding.code, finding.evidence["engine"], finding.evidence["filter"]) == (
        "topic-differs",
        "events",
        "kv@",
    )


def test_senders_that_are_no_endpoint_are_named() -> None:
    ward = Ward(kvEventsConfig={"zmqEndpoint": "tcp://*:5557"})
    central = ward.fixture.prefix.open_central(ward.fixture.pool.snapshot)
    assert central is not None
    central.receive([b"kv@10.9.9.9:1@m", bytes(8), b"\x92\x01\x90"], 1.0, 1)
    ward.fixture.prefix.central = central
    finding = ward.only()
    assert (finding.code, finding.evidence["addresses"]) == ("topic-unknown", ["10.9.9.9:1"])
    assert finding.evidence["endpoints"] == [A, B]


def test_topics_that_come_no_more_are_forgotten_with_the_window() -> None:
    ward = Ward(kvEventsConfig={"zmqEndpoint": "tcp://*:5557"})
    central = ward.fixture.prefix.open_central(ward.fixture.pool.snapshot)
    assert central is not None
    ward.fixture.prefix.central = central
    for topic in (b"kv@10.9.9.9:1@m", b"events"):
        central.receive([topic, bytes(8), b"\x92\x01\x90"], 1.0, 1)
    ward.wait(WINDOW_S)
    assert ward.only().evidence["topics_left_out"] == ["events"]
    central.receive([b"events", bytes(8), b"\x92\x01\x90"], 1.0, 1)
    ward.wait(WINDOW_S)
    finding = ward.only()
    assert (finding.evidence["addresses"], finding.evidence["topics_left_out"]) == ([], ["events"])
    ward.wait(2 * WINDOW_S)
    ward.wait(WINDOW_S)
    assert ward.codes() == []


def test_events_whose_model_nobody_names_are_named() -> None:
    ward = Ward()
    ward.fixture.announce(A, stored([1], range(16)), topic=b"")
    assert ward.only().code == "model-unknown"


async def _expired(ward: Ward) -> None:
    """Guess two prompts at A, hear of other blocks, and let the guesses run out."""
    for _ in range(2):
        (await ward.fixture.send(A)).responded(200)
    ward.fixture.announce(A, stored([1, 2], range(500, 532)))
    ward.fixture.now += 100
    await ward.fixture.facts()


async def test_guesses_that_are_never_confirmed_are_named() -> None:
    ward = Ward()
    await _expired(ward)
    finding = ward.only()
    assert (finding.code, finding.about) == ("speculation-unconfirmed", A)
    assert finding.evidence == {
        "recorded": 8,
        "confirmed": 0,
        "expired": 8,
        "blocks_told_of": 2,
    }


async def test_one_confirmed_block_is_enough() -> None:
    ward = Ward()
    await ward.fixture.send(A)
    ward.fixture.announce(A, stored([1], range(16)))
    await _expired(ward)
    assert ward.codes() == []


async def test_other_counts_of_tokens_are_the_cause_and_named_with_both() -> None:
    ward = Ward()
    await _expired(ward)
    for _ in range(2):
        ward.answered(usage=Usage(77, 1, 0), predicted_cached_tokens=64)
    finding = ward.only()
    assert finding.code == "tokenizer-differs"
    assert (finding.evidence["tokenizer"], finding.evidence["engine"]) == (70, 77)


async def test_other_counts_say_nothing_of_requests_with_several_prompts() -> None:
    ward = Ward()
    await _expired(ward)
    for _ in range(2):
        ward.answered(usage=Usage(140, 1, 0), predicted_cached_tokens=64, prompts=2)
    assert ward.codes() == [("speculation-unconfirmed", A)]


async def test_other_counts_say_nothing_where_prompts_match() -> None:
    ward = Ward()
    ward.fixture.announce(A, stored([1], range(16)))
    for _ in range(3):
        held = {A: make.held(1)}
        ward.answered(usage=Usage(140, 1, 0), prefix=held, predicted_cached_tokens=64)
    assert ward.codes() == []


async def test_equal_counts_are_no_cause() -> None:
    ward = Ward()
    ward.fixture.announce(A, stored([1], range(16)))
    for _ in range(3):
        ward.answered(usage=Usage(70, 1, 0), predicted_cached_tokens=64)
    assert ward.codes() == []
