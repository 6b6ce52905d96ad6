from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest

from warmroute import cli, grpc_core


class _Command(types.ModuleType):
    """A command whose module notes what the environment holds when it is taken up."""

    def __init__(self) -> None:
        super().__init__("a_command")
        self.seen: list[str | None] = []

    def add_arguments(self, parser: object) -> None:
        self.seen.append(os.environ.get(grpc_core.EXPERIMENTS))

    def run(self, parsed: object) -> int:
        return 0


@pytest.mark.parametrize(
    ("given", "expected"), [(None, grpc_core.POLLED), ("", ""), ("other", "other")], ids=repr
)
def test_it_is_settled_before_a_command_imports_grpc_unless_somebody_chose(
    given: str | None, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = _Command()
    monkeypatch.setitem(sys.modules, command.__name__, command)
    monkeypatch.setattr(cli, "COMMANDS", {"serve": (command.__name__, "")})
    # Set first, so that whatever becomes of it ends with the test.
    monkeypatch.setenv(grpc_core.EXPERIMENTS, given or "")
    if given is None:
        monkeypatch.delenv(grpc_core.EXPERIMENTS)
    assert cli.main(["serve"]) == 0
    assert command.seen == [expected]


def test_the_command_line_itself_imports_no_grpc() -> None:
    probe = "import sys, warmroute.cli; print(any(m.startswith('grpc') for m in sys.modules))"
    run = subprocess.run(
        [sys.executable, "-c", probe], capture_output=True, text=True, timeout=60, check=True
    )
    assert run.stdout.strip() == "False"


@pytest.mark.parametrize("told", [grpc_core.POLLED, "-no_such_thing"], ids=["ours", "unknown"])
def test_grpc_knows_what_it_is_told(told: str) -> None:
    run = subprocess.run(
        [sys.executable, "-c", "import grpc; grpc.server(None)"],
        env={**os.environ, grpc_core.EXPERIMENTS: told},
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert ("Unknown experiment" in run.stderr) is (told != grpc_core.POLLED)
