from __future__ import annotations

from structlog.testing import capture_logs

from router.errors import BadRequest, RouterError
from router.request.usage import Usage
from router.telemetry.decisions import Decisions, Record, StageRecord
from router.telemetry.journal import Journal
from router.telemetry.metrics import Metrics


def test_each_request_is_kept_counted_and_logged_once_without_its_prompt() -> None:
    metrics, decisions = Metrics(lambda _: True), Decisions()
    journal = Journal(metrics, decisions)
    record = Record(request_id="r1", at=1.0, kind="chat", model="m", endpoint="a:1")
    record.scores = {"queue-scorer": {"a:1": 0.12345}}
    with capture_logs() as logs:
        journal.routed(record)
        record.status, record.duration_ms, record.usage = 200, 12.345, Usage(7, 1, 0)
        record.prompt_tokens, record.predicted_cached_tokens = 7, 0
        journal.ended(record)
    assert decisions.get("r1") is record
    assert metrics.registry.get_sample_value("llm_d_epp_scheduler_e2e_duration_seconds_count") == 1
    assert logs == [
        {
            "event": "request.ended",
            "log_level": "info",
            "request_id": "r1",
            "kind": "chat",
            "model": "m",
            "endpoint": "a:1",
            "status": 200,
            "prompt_tokens": 7,
            "predicted": 0,
            "reported": 0,
            "scores": {"queue-scorer": 0.123},
            "took_ms": 0.0,
            "duration_ms": 12.3,
        }
    ]


class Reading:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.told: list[str] = []

    def routed(self, record: Record) -> None:
        self.told.append("routed")

    def refused(self, record: Record, error: RouterError) -> None:
        self.told.append(f"refused {error}")

    def ended(self, record: Record) -> None:
        self.told.append("ended")


def test_readers_are_told_of_each_request_too() -> None:
    reader = Reading()
    journal = Journal(Metrics(lambda _: True), Decisions(), reader)
    record = Record(request_id="r1", at=1.0, kind="chat", model="m", endpoint="a:1")
    journal.routed(record)
    journal.ended(record)
    journal.refused(record, BadRequest("no good"))
    assert reader.told == ["routed", "ended", "refused no good"]


def test_a_refusal_is_kept_and_logged_with_its_reason() -> None:
    decisions = Decisions()
    journal = Journal(Metrics(lambda _: True), decisions)
    record = Record(request_id="r1", at=1.0, kind="chat", model="m", refused="no good")
    record.took_ms = 1.234
    with capture_logs() as logs:
        journal.refused(record, BadRequest("no good"))
    assert decisions.get("r1") is record
    assert [(entry["status"], entry["refused"]) for entry in logs] == [(400, "no good")]
    assert [(entry["model"], entry["took_ms"]) for entry in logs] == [("m", 1.23)]


def test_where_a_request_was_prefilled_is_logged() -> None:
    journal = Journal(Metrics(lambda _: True), Decisions())
    stage = StageRecord(profile="prefill", endpoints=("p:1",))
    record = Record(request_id="r", at=1.0, kind="chat", model="m", prefill=stage)
    record.prefill_result = "failed"
    with capture_logs() as logs:
        journal.ended(record)
    assert (logs[0]["prefill"], logs[0]["prefill_result"]) == ("p:1", "failed")


def test_what_had_to_be_done_without_is_logged() -> None:
    journal = Journal(Metrics(lambda _: True), Decisions())
    record = Record(request_id="r", at=1.0, kind="chat", model="m", fallbacks=("no token ids",))
    with capture_logs() as logs:
        journal.ended(record)
    assert logs[0]["fallbacks"] == ["no token ids"]
