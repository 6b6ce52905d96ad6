from __future__ import annotations

import json

import pytest

from warmroute.lines import request_line


def test_a_request_is_one_line() -> None:
    event = {
        "event": "request.ended",
        "kind": "chat",
        "endpoint": "127.0.0.1:8000",
        "status": 200,
        "prompt_tokens": 70,
        "predicted": 64,
        "reported": 48,
        "scores": {"prefix-cache-scorer": 0.914},
        "took_ms": 1.26,
        "duration_ms": 99.7,
    }
    assert request_line(json.dumps(event)) == (
        "chat        127.0.0.1:8000    200  cached 64 predicted, 48 reported of 70  "
        "prefix-cache-scorer 0.91  pick 1.3 ms, all 100 ms"
    )


def test_what_is_not_known_is_a_dash() -> None:
    line = request_line('{"event": "request.ended", "kind": "other", "endpoint": "a:1"}')
    assert line is not None
    assert "cached \N{EN DASH} predicted, \N{EN DASH} reported of \N{EN DASH}" in line


def test_a_refusal_says_why() -> None:
    event = {"event": "request.ended", "kind": "chat", "status": 400, "refused": "no good"}
    assert request_line(json.dumps(event)) == "chat        refused  no good"
    event["refused"] = "no \x1b[2J\ngood"
    assert request_line(json.dumps(event)) == "chat        refused  no ?[2J?good"


@pytest.mark.parametrize(
    "line",
    [
        "",
        "text",
        "[1]",
        '{"event": "scrape.failed"}',
        '{"event": 3}',
        '{"event": "request.ended", "request_id": "warmroute-up"}',
    ],
)
def test_other_lines_are_no_requests(line: str) -> None:
    assert request_line(line) is None


@pytest.mark.parametrize(
    ("result", "shown"), [("ok", "prefill p:1  "), ("failed", "prefill p:1 failed  ")]
)
def test_a_prefill_elsewhere_is_shown(result: str, shown: str) -> None:
    event = {"event": "request.ended", "endpoint": "d:1", "prefill": "p:1"}
    line = request_line(json.dumps({**event, "prefill_result": result}))
    assert line is not None
    assert shown in line
