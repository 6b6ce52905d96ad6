from __future__ import annotations

from router.telemetry.decisions import Decisions, Record


def record(request_id: str) -> Record:
    return Record(request_id=request_id, at=1.0, kind="chat", model="m")


def test_the_last_records_are_kept_newest_first() -> None:
    decisions = Decisions(limit=3)
    for name in "abcd":
        decisions.add(record(name))
    assert [r.request_id for r in decisions.last(2)] == ["d", "c"]
    assert [r.request_id for r in decisions.last(99)] == ["d", "c", "b"]
    assert decisions.get("a") is None
    assert decisions.get("b") is not None


def test_an_id_that_comes_again_replaces_the_older_record() -> None:
    decisions = Decisions(limit=2)
    first, second = record("a"), record("a")
    decisions.add(first)
    decisions.add(record("b"))
    decisions.add(second)
    assert decisions.get("a") is second
    assert [r.request_id for r in decisions.last(9)] == ["a", "b"]


def test_a_hundred_thousand_requests_leave_as_many_records_as_are_kept() -> None:
    decisions = Decisions()
    for number in range(100_000):
        decisions.add(record(str(number)))
    kept = list(decisions.all())
    assert [r.request_id for r in kept] == [str(n) for n in range(99_000, 100_000)]
