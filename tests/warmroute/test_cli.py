from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import processes
from warmroute import cli

STOPPED_WHILE_IT_STARTS = """
import importlib, signal, sys
from warmroute import cli

def add_arguments(_):
    try:
        signal.raise_signal(signal.SIGTERM)
    except BaseException:
        pass

importlib.import_module(cli.COMMANDS[sys.argv[1]][0]).add_arguments = add_arguments
cli.main([sys.argv[1]])
"""


def test_help_lists_every_command(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    assert ended.value.code == 0
    said = capsys.readouterr().out
    assert all(command in said for command in cli.COMMANDS)


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_explains_itself(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    assert "options:" in capsys.readouterr().out


def test_a_command_that_cannot_start_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["serve"]) == 1
    captured = capsys.readouterr()
    assert captured.err.startswith("warmroute serve: no endpoints")
    assert captured.err.count("\n") == 1


@pytest.mark.parametrize("argv", [[], ["nonsense"], ["serve", "--nonsense"]], ids=str)
def test_a_wrong_command_line_is_refused(
    argv: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(argv)
    assert ended.value.code == 2
    assert "usage:" in capsys.readouterr().err


def test_an_interrupted_command_ends_without_a_word(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr("warmroute.check.run", interrupted)
    assert cli.main(["check", "config.yaml"]) == cli.INTERRUPTED
    assert capsys.readouterr() == ("", "")


def test_output_that_is_read_no_further_ends_a_command_without_a_word(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n")
    asked = processes.command("check", str(config))
    with subprocess.Popen(asked, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(30) == cli.UNREAD


@pytest.mark.parametrize(
    ("command", "code"), [("serve", 0), ("check", -signal.SIGTERM)], ids=["service", "other"]
)
def test_a_command_that_is_told_to_stop_while_it_starts_stops(command: str, code: int) -> None:
    argv = [sys.executable, "-c", STOPPED_WHILE_IT_STARTS, command]
    done = subprocess.run(argv, capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


@pytest.mark.parametrize("argv", [["serve"], ["check", "nowhere.yaml"]], ids=["service", "other"])
def test_whoever_runs_a_command_keeps_its_way_to_end(argv: list[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    assert cli.main(argv) == 1
    assert signal.getsignal(signal.SIGTERM) is before
