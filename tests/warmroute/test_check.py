"""Each file of the golden folder holds a configuration, a line of dashes, and what `check` says.

`WRITE_GOLDEN=1` writes what it says now; the difference is to be read before it is committed.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.support.markdown import ROOT
from warmroute.cli import main

FOLDER = ROOT / "tests" / "golden" / "check"
RULER = "----------\n"


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.txt")), ids=lambda path: path.stem)
def test_a_configuration_is_explained(
    path: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text, _, expected = path.read_text().partition(RULER)
    monkeypatch.chdir(tmp_path)
    Path("epp.yaml").write_text(text)
    code = main(["check", "epp.yaml"])
    printed = capsys.readouterr()
    said = f"exit {code}\n{printed.out}{printed.err}"
    if os.environ.get("WRITE_GOLDEN"):
        path.write_text(f"{text}{RULER}{said}")
    else:
        assert said == expected
    assert code == path.stem.startswith("bad_")


def test_a_file_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "missing.yaml"]) == 1
    assert capsys.readouterr().err == "warmroute check: missing.yaml: No such file or directory\n"


def test_a_file_that_is_no_text_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "epp.yaml").write_bytes(b"\xff\xfe")
    assert main(["check", str(tmp_path / "epp.yaml")]) == 1
    assert "can't decode byte" in capsys.readouterr().err
