"""The comparison in its smallest size; without Dynamo our side plays both."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from bench import conductor
from bench.conductor import DYNAMO, OURS, Size

SMALL = Size(tokens=(512, 1024), workers=2, calls=4, connections=2, rounds=1)


def services() -> list[str]:
    """Children that serve; what Python itself starts beside is none."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    commands = [Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0") for pid in children]
    return [command[3].decode() for command in commands if b"warmroute" in command]


def test_every_length_has_its_ratio_and_nothing_is_left_behind() -> None:
    figures = conductor.figures(SMALL, (OURS, OURS))
    assert [figure.name for figure in figures] == [
        f"/query of {tokens} tokens, block 16, 2 workers" for tokens in SMALL.tokens
    ]
    assert all(figure.value > 0 for figure in figures)
    assert all("requests/s with 2 at once; Dynamo p50" in figure.note for figure in figures)
    assert services() == []


def test_without_dynamo_it_is_skipped_with_a_reason(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(conductor, "DYNAMO_PYTHON", Path("no-such-python"))
    assert conductor.figures(SMALL) == []
    assert (
        capsys.readouterr().out == "skipped: there is no no-such-python, which `make peers` makes\n"
    )


def test_dynamo_is_told_of_workers_by_number() -> None:
    told = DYNAMO.registration(3, "tcp://127.0.0.1:5557")
    assert (told["instance_id"], told["endpoint"]) == (3, "tcp://127.0.0.1:5557")
    assert DYNAMO.longest({"scores": {"1": {"0": 32}, "2": {"0": 48, "1": 16}}}) == 48
    assert DYNAMO.longest({"scores": {}}) == 0
