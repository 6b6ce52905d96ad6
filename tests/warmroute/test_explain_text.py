from __future__ import annotations

import msgspec

from router.producers.facts import HeldPrefix
from router.request.usage import Usage
from router.scheduling.types import Dropped
from router.telemetry.decisions import Record, StageRecord
from warmroute.explain_text import MAX_ROWS, explained, listed

A, B = "10.0.0.1:8000", "10.0.0.2:8000"

RECORD = Record(
    request_id="r-1",
    at=3661.0,
    kind="chat",
    model="m",
    target_model="m",
    endpoint=B,
    took_ms=1.25,
    times_ms={"parse": 0.25, "schedule": 1.0},
    prompt_tokens=70,
    predicted_cached_tokens=64,
    profile="default",
    candidates=3,
    totals={A: 2.0, B: 5.0},
    scores={"prefix": {A: 0.0, B: 1.0}, "queue": {A: 1.0, B: 1.0}},
    weights={"prefix": 3.0, "queue": 2.0},
    dropped=[Dropped("busy", ("10.0.0.3:8000",), "its queue is full")],
    prefix={B: HeldPrefix(3, {"gpu": 2, "cpu": 1}, 4, 3.8)},
    total_blocks=4,
    block_size=16,
    status=200,
    usage=Usage(70, 5, 64),
    duration_ms=123.4,
    completed=True,
)


def test_one_decision_is_a_table_of_its_candidates_best_first() -> None:
    assert list(explained(RECORD)) == [
        "01:01:01  r-1  chat, model m",
        "went to   10.0.0.2:8000",
        "prompt    70 tokens, 4 blocks of 16; 64 tokens expected from the cache, the engine "
        "reports 64",
        "answer    status 200 after 123 ms",
        "pick      1.25 ms: parse 0.25, schedule 1.00",
        "",
        "profile default picks 10.0.0.2:8000",
        "  endpoint       total    prefix x3     queue x2                    holds",
        "> 10.0.0.2:8000  5.000  1.00 = 3.00  1.00 = 2.00  2 gpu, 1 cpu, 1 guessed",
        "  10.0.0.1:8000  2.000  0.00 = 0.00  1.00 = 2.00                        -",
        "  busy dropped 10.0.0.3:8000: its queue is full",
    ]


def test_who_prefills_is_told_with_a_table_of_its_own() -> None:
    stage = StageRecord(profile="prefill", endpoints=(A,), totals={A: 1.0})
    split = Record(request_id="r", at=0.0, kind="chat", model="m", endpoint=B, prefill=stage)
    lines = list(explained(split))
    assert f"went to   {B} (prefill at {A})" in lines
    assert f"prefill: profile prefill picks {A}" in lines


def test_of_many_candidates_the_best_and_the_pick_are_shown() -> None:
    totals = {f"10.0.1.{number}:8000": 9.0 - number / 100 for number in range(99)}
    record = Record(request_id="r", at=0.0, kind="chat", model="m", endpoint=B, candidates=150)
    record.totals = {**totals, B: 1.0}
    record.dropped = [Dropped("busy", tuple(totals), "it is full")]
    lines = list(explained(record))
    assert lines[-1].endswith(f"10.0.1.19:8000 and {99 - MAX_ROWS} more: it is full")
    rows = [line for line in lines if ":8000  " in line]
    assert len(rows) == MAX_ROWS
    assert rows[0].startswith("  10.0.1.0:8000")
    assert rows[-1].startswith(f"> {B}")
    assert f"  … and {100 - MAX_ROWS} more" in lines


def test_fallbacks_and_who_stood_in_are_notes() -> None:
    record = Record(request_id="r", at=0.0, kind="chat", model="m", endpoint=B, served=A)
    record.fallbacks = ("no token ids: timeout",)
    notes = [line for line in explained(record) if line.startswith("note")]
    assert notes == [
        "note      no token ids: timeout",
        f"note      {A} answered: the one picked could not be reached",
    ]


def test_of_several_prompts_it_says_that_the_engine_counts_all() -> None:
    lines = list(explained(msgspec.structs.replace(RECORD, prompts=2)))
    assert (
        "prompt    70 tokens in the first of 2 prompts, 4 blocks of 16; 64 tokens expected from "
        "the cache, the engine counts all of them"
    ) in lines


def test_an_answer_that_was_cut_short_is_told_as_that() -> None:
    record = msgspec.structs.replace(RECORD, completed=False)
    assert "answer    status 200 after 123 ms, cut short" in list(explained(record))
    record.duration_ms = None
    assert "answer    status 200" in list(explained(record))


def test_a_refusal_says_why_and_nothing_more() -> None:
    refused = Record(request_id="r", at=0.0, kind="chat", model="m\x1b", refused="no good")
    assert list(explained(refused)) == ["00:00:00  r  chat, model m?", "refused: no good"]


def test_a_refusal_names_its_status_who_was_dropped_and_what_took_time() -> None:
    refused = Record(request_id="r", at=0.0, kind="chat", model="", refused="all are full")
    refused.status, refused.took_ms, refused.times_ms = 429, 1.5, {"parse": 0.5}
    refused.dropped = [Dropped("busy", (A, B), "their queues are full")]
    assert list(explained(refused)) == [
        "00:00:00  r  chat, no model named",
        "refused with 429: all are full",
        "pick      1.50 ms: parse 0.50",
        f"  busy dropped {A}, {B}: their queues are full",
    ]


def test_the_list_has_a_line_for_each() -> None:
    refused = Record(request_id="r-2", at=0.0, kind="other", model="", refused="no good")
    head, first, second = listed([RECORD, refused])
    assert head.split()[:4] == ["time", "request", "model", "endpoint"]
    assert first.split() == [
        "01:01:01", "r-1", "m", B, "70", "64", "64", "200", "1.2", "123",
    ]  # fmt: skip
    assert second.split()[-1] == "refused"
