from __future__ import annotations

from router.request.usage import Usage
from router.telemetry.decisions import Decisions, StageRecord
from router.telemetry.page.viewer import SHOWN, Viewer
from tests.support.records import A, B, record


def ids(viewer: Viewer, decisions: Decisions) -> list[str]:
    return [brief.request_id for brief in viewer.news(decisions)]


def test_each_decision_is_news_once_and_again_when_it_goes_on() -> None:
    decisions, viewer = Decisions(), Viewer()
    first, second = record("r1"), record("r2")
    decisions.add(first)
    decisions.add(second)
    assert ids(viewer, decisions) == ["r1", "r2"]
    assert ids(viewer, decisions) == []
    first.status = 200
    assert ids(viewer, decisions) == ["r1"]
    first.duration_ms = 12.0
    assert ids(viewer, decisions) == ["r1"]
    assert ids(viewer, decisions) == []


def test_an_id_that_comes_again_is_news() -> None:
    decisions, viewer = Decisions(), Viewer()
    decisions.add(record("r1", at=1.0))
    viewer.news(decisions)
    decisions.add(record("r1", at=2.0))
    assert ids(viewer, decisions) == ["r1"]


def test_a_burst_is_cut_to_its_newest_and_nothing_is_remembered_of_the_rest() -> None:
    decisions, viewer = Decisions(), Viewer()
    for i in range(5 * SHOWN):
        decisions.add(record(f"r{i}", at=float(i)))
    assert ids(viewer, decisions) == [f"r{i}" for i in range(4 * SHOWN, 5 * SHOWN)]
    assert len(viewer._seen) == SHOWN


def test_each_viewer_has_seen_what_it_was_shown() -> None:
    decisions, one, other = Decisions(), Viewer(), Viewer()
    decisions.add(record("r1"))
    assert ids(one, decisions) == ids(other, decisions) == ["r1"]


def test_a_brief_tells_who_answers_and_what_the_engine_reported() -> None:
    decisions = Decisions()
    told = record("r1", served=B, usage=Usage(9, 1, 4), fallbacks=("x", "y"))
    told.prefill = StageRecord(profile="prefill", endpoints=(A,))
    decisions.add(told)
    (brief,) = Viewer().news(decisions)
    assert (brief.endpoint, brief.prefill) == (B, A)
    assert (brief.reported_cached_tokens, brief.fallbacks) == (4, 2)
