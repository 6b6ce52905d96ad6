from __future__ import annotations

from indexer.budget import STORED_BYTES
from router.producers.prefix_parameters import Bounds
from tests.router.producers.test_prefix import A, stored
from tests.router.telemetry.doctor.ward import Ward


def test_groups_that_cannot_be_judged_are_named() -> None:
    ward = Ward()
    ward.fixture.announce(A, stored([1], range(16), group_idx=0, kv_cache_spec_kind="novel"))
    finding = ward.only()
    assert (finding.code, finding.evidence["reason"]) == ("groups-unknown", "unsupported_group")


def test_an_index_without_room_is_named_with_its_bounds() -> None:
    ward = Ward(bounds=Bounds(None, 3 * STORED_BYTES))
    ward.fixture.announce(A, stored([1, 2, 3, 4], range(64)))
    finding = ward.only()
    assert (finding.code, finding.evidence["dropped_blocks"]) == ("index-full", 1)
    assert finding.evidence["index_bytes_per_endpoint"] == 3 * STORED_BYTES


def test_events_that_make_no_sense_are_counted_by_reason() -> None:
    ward = Ward()
    ward.fixture.announce(A, {"type": "Nonsense"}, stored([1, 2], range(16)))
    finding = ward.only()
    assert finding.code == "events-left-out"
    assert finding.evidence["reasons"] == {"unknown_event": 1, "count_mismatch": 1}


def test_what_an_engine_sent_in_vain_is_forgotten_with_its_process() -> None:
    ward = Ward()
    ward.fixture.announce(A, {"type": "Nonsense"}, stored([1, 2], range(16)))
    ward.fixture.prefix.index.restarted(A, 950.0)
    assert [code for code, _ in ward.codes()] == ["engine-restarted"]
    ward.fixture.announce(A, {"type": "Nonsense"}, {"type": "Nonsense"})
    found = {finding.code: finding.evidence for finding in ward.findings()}
    assert found["events-left-out"]["reasons"] == {"unknown_event": 2}
