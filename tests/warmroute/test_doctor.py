from __future__ import annotations

import msgspec
import pytest

from router.telemetry.doctor.finding import Finding
from tests.warmroute.answering import answering
from warmroute import cli

FINDING = Finding(
    code="block-size-differs",
    about="10.0.0.1:8000",
    what="its blocks do not fit",
    evidence={"engine": 24, "index": 16, "names": ["a\x1b", "b"], "text": "x"},
    fix="start it with --block-size 16",
)


def test_each_finding_is_told_with_evidence_and_fix_and_the_exit_code_is_one(
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = msgspec.json.encode({"findings": [FINDING]})
    with answering({"/debug/doctor": (200, page)}) as url:
        assert cli.main(["doctor", f"--url={url}"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "10.0.0.1:8000: its blocks do not fit  [block-size-differs]",
        '  evidence  engine=24, index=16, names=["a\\u001b","b"], text=x',
        "  fix       start it with --block-size 16",
        "",
        "1 finding",
    ]


def test_nothing_wrong_is_said_and_exits_with_zero(capsys: pytest.CaptureFixture[str]) -> None:
    with answering({"/debug/doctor?silence=5.000000s": (200, b'{"findings": []}')}) as url:
        assert cli.main(["doctor", f"--url={url}", "--silence=5s"]) == 0
    assert capsys.readouterr().out == "nothing is wrong\n"


@pytest.mark.parametrize(
    ("pages", "reason"),
    [({}, "it is no router"), ({"/debug/doctor": (200, b"[]")}, "no router of this version")],
)
def test_what_is_no_router_is_one_line(
    pages: dict[str, tuple[int, bytes]], reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(pages) as url:
        assert cli.main(["doctor", f"--url={url}"]) == 1
    assert reason in capsys.readouterr().err
