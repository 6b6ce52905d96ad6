from __future__ import annotations

from indexer.feed import Source
from router.pool.endpoint import EngineMetrics
from router.producers.prefix import PrecisePrefix
from router.producers.prefix_parameters import PrecisePrefixParameters
from router.telemetry.decisions import StageRecord
from router.telemetry.doctor.doctor import Doctor
from router.telemetry.doctor.streams import PARKED_S
from router.telemetry.doctor.window import WINDOW_S
from tests.router.producers.test_prefix import A, B, stored
from tests.router.telemetry.doctor.ward import Ward
from tests.support import make


def test_streams_that_are_heard_have_no_finding() -> None:
    ward = Ward()
    ward.fixture.announce(A, stored([1], range(16)))
    ward.wait(100)
    assert ward.codes() == []


def test_an_endpoint_whose_events_nobody_reads_is_named() -> None:
    ward = Ward()
    unread = PrecisePrefix(
        "unread",
        PrecisePrefixParameters(),
        resolve=ward.fixture.pool.resolve_model,
        clock=lambda: 0.0,
        notified=False,
    )
    doctor = Doctor(
        ward.fixture.pool,
        ward.decisions,
        prefixes=[unread],
        tokenizers=[],
        loads=[],
        config=ward.config,
        comparison=ward.comparison,
        clock=lambda: 0.0,
    )
    found = doctor.findings()
    assert [(f.code, f.about) for f in found] == [("no-event-source", A), ("no-event-source", B)]


def test_an_address_for_which_no_socket_can_be_made_is_named() -> None:
    ward = Ward()
    source = next(iter(ward.fixture.prefix.index.feeds())).source
    ward.fixture.prefix.unusable = lambda: {source: "no such transport"}
    finding = ward.only()
    assert (finding.code, finding.evidence["error"]) == (
        "event-socket-unusable",
        "no such transport",
    )


def test_a_stream_that_never_connected_is_named_unless_it_is_heard_another_way() -> None:
    ward = Ward()
    index = ward.fixture.prefix.index
    index.open(Source(ward.fixture.feeds[A].source.holder, "tcp://*:1"))
    assert ward.only().evidence["endpoint"] == "tcp://*:1"
    ward.fixture.announce(A, stored([1], range(16)))
    assert ward.codes() == []


def test_a_lost_stream_is_named_with_what_it_last_said() -> None:
    ward = Ward()
    ward.fixture.announce(A, stored([1], range(16)))
    ward.fixture.feeds[A].lost()
    finding = ward.only()
    assert (finding.code, finding.about) == ("event-stream-lost", A)
    assert (finding.evidence["losses"], finding.evidence["last_seq"]) == (1, 0)


def test_silence_after_a_prompt_was_computed_is_named_in_time() -> None:
    ward = Ward()
    ward.wait(40)
    assert ward.codes() == []  # nobody asked for anything
    ward.answered()
    ward.wait(29)
    assert ward.codes() == []
    assert ward.codes(silence_s=20) == [("no-events", A)]
    ward.wait(1)
    assert ward.only().evidence["prompts_since"] == 1


def test_silence_is_no_wonder_where_nothing_new_was_computed() -> None:
    ward = Ward()
    ward.answered(predicted_cached_tokens=64)
    ward.answered(status=503)
    ward.answered(status=None)
    ward.answered(total_blocks=0)
    ward.answered(served=B)
    split = StageRecord(profile="p", endpoints=(B,))
    ward.answered(prefill=split, predicted_cached_tokens=64)
    ward.wait(100)
    assert ward.codes() == []


def test_who_prefilled_has_to_tell_of_it() -> None:
    ward = Ward()
    split = StageRecord(profile="p", endpoints=(B,))
    ward.answered(A, prefill=split)
    ward.wait(100)
    assert ward.codes() == [("no-events", B)]


def test_a_restart_is_told_for_a_while() -> None:
    ward = Ward()
    ward.scrape(A, process_start=990.0)
    finding = ward.only()
    assert (finding.code, finding.about) == ("engine-restarted", A)
    assert (finding.evidence["times"], finding.evidence["up_for_s"]) == (1, 10)
    for _ in range(2):
        ward.wait(WINDOW_S)
        ward.scrape(A, process_start=990.0)
    ward.wait(1)
    assert ward.codes() == []


def test_a_sequence_that_went_back_is_a_restart_too() -> None:
    ward = Ward()
    for names in ([1], [2]):
        ward.fixture.announce(A, stored(names, range(16)))
    ward.fixture._seq[A] = -1
    ward.fixture.announce(A, stored([3], range(16)))
    assert ward.codes() == [("engine-restarted", A)]


def test_gaps_that_no_replay_filled_are_named() -> None:
    ward = Ward()
    ward.fixture.announce(A, stored([1], range(16)))
    ward.fixture._seq[A] = 4
    ward.fixture.announce(A, stored([2], range(16)))
    finding = ward.only()
    assert (finding.code, finding.evidence["gaps"], finding.evidence["missed"]) == (
        "event-gaps",
        1,
        4,
    )
    assert "replay_endpoint" in finding.fix


def test_a_stream_that_was_joined_late_is_named() -> None:
    ward = Ward()
    ward.fixture._seq[A] = 6
    ward.fixture.announce(A, stored([1], range(16)))
    finding = ward.only()
    assert (finding.code, finding.evidence["last_seq"]) == ("events-joined-late", 7)


def test_blocks_that_wait_long_for_a_parent_are_named() -> None:
    ward = Ward()
    ward.fixture.announce(A, stored([2, 3], range(32), parent_block_hash=99))
    assert ward.codes() == []
    ward.wait(PARKED_S)
    finding = ward.only()
    assert (finding.code, finding.evidence["parked_blocks"]) == ("parked-blocks", 2)


def test_what_is_known_of_an_endpoint_goes_with_it() -> None:
    ward = Ward()
    ward.scrape(A, process_start=990.0)
    ward.answered()
    ward.fixture.pool.replace([make.endpoint(B)])
    ward.fixture.pool.scraped(B, EngineMetrics(waiting=0, running=0, scraped_at=1e9))
    assert A not in ward.comparison.predicted
    assert [f for f in ward.findings() if f.code == "engine-restarted"] == []
