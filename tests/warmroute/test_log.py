from __future__ import annotations

import io
import json
from collections.abc import Iterator

import pytest
import structlog

from warmroute import log


@pytest.fixture(autouse=True)
def _untouched() -> Iterator[None]:
    yield
    structlog.reset_defaults()


def test_json_is_one_event_a_line() -> None:
    stream = io.StringIO()
    log.configure("json", stream)
    structlog.get_logger().info("a.b", number=1, text="x\ny")
    structlog.get_logger().warning("c")
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["event"], first["number"], first["text"]) == ("a.b", 1, "x\ny")
    assert (first["level"], second["level"]) == ("info", "warning")
    assert first["timestamp"].endswith("Z")


def test_text_is_for_people() -> None:
    stream = io.StringIO()
    log.configure("text", stream)
    structlog.get_logger().info("a.b", number=1)
    assert "a.b" in stream.getvalue()
    assert "number=1" in stream.getvalue()
    assert "\x1b" not in stream.getvalue()


def test_names_that_clients_give_are_no_commands_to_a_terminal() -> None:
    stream = io.StringIO()
    log.configure("text", stream)
    try:
        raise ValueError("of two\nlines")
    except ValueError:
        structlog.get_logger().exception("a.b", model="\x1b[2Jx", request_id="r\u2028\x9b2J\nfake")
    first, *trace = stream.getvalue().splitlines()
    assert "model=?[2Jx" in first
    assert "r??2J?fake" in first
    assert not any("\x1b" in line for line in (first, *trace))
    assert trace[-2:] == ["ValueError: of two", "lines"]


@pytest.mark.parametrize(("level", "said"), [("debug", 4), ("info", 3), ("error", 1)])
def test_what_is_below_the_level_is_left_out(level: str, said: int) -> None:
    stream = io.StringIO()
    log.configure("json", stream, level)
    for name in log.LEVELS:
        getattr(structlog.get_logger(), name)("a.b")
    assert len(stream.getvalue().splitlines()) == said
