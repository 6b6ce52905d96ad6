from __future__ import annotations

import msgspec
import pytest

from tests.warmroute.answering import answering
from tests.warmroute.test_explain_text import RECORD
from warmroute import cli


def test_one_decision_is_found_by_any_request_id(capsys: pytest.CaptureFixture[str]) -> None:
    page = msgspec.json.encode(RECORD)
    with answering({"/debug/decisions/a%2Fb%20c": (200, page)}) as url:
        assert cli.main(["explain", "a/b c", f"--url={url}"]) == 0
    assert "profile default picks 10.0.0.2:8000" in capsys.readouterr().out


def test_the_last_ones_are_listed(capsys: pytest.CaptureFixture[str]) -> None:
    page = msgspec.json.encode({"decisions": [RECORD]})
    with answering({"/debug/decisions?limit=2": (200, page)}) as url:
        assert cli.main(["explain", f"--url={url}", "--limit=2"]) == 0
    head, line = capsys.readouterr().out.splitlines()
    assert head.startswith("time")
    assert "r-1" in line


def test_before_the_first_request_it_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    with answering({"/debug/decisions?limit=20": (200, b'{"decisions": []}')}) as url:
        assert cli.main(["explain", f"--url={url}"]) == 0
    assert capsys.readouterr().out == "no request yet\n"


@pytest.mark.parametrize(
    ("pages", "reason"),
    [({}, "no decision of request"), ({"/debug/decisions/r": (200, b"[]")}, "no router of this")],
)
def test_what_cannot_be_told_is_one_line(
    pages: dict[str, tuple[int, bytes]], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(pages) as url:
        assert cli.main(["explain", "r", f"--url={url}"]) == 1
    said = capsys.readouterr().err
    assert reason in said
    assert said.count("\n") == 1
