"""The runner: order, output, exit code."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from bench import __main__ as runner
from bench.figures import Figure
from bench.report import report


@pytest.fixture(autouse=True)
def _signals_as_before() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


def measured(name: str, value: float) -> list[Figure]:
    return [Figure(name=name, value=value, unit="ms", budget=1.0)]


def test_all_benchmarks_run_in_order_and_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    benches = {"b": lambda: measured("second", 0.5), "a": lambda: measured("first", 2.0)}
    assert report(benches) == 1
    shown = capsys.readouterr().out
    assert shown.index("-- b") < shown.index("second") < shown.index("-- a") < shown.index("first")
    assert shown.endswith("-- 2 figures, 1 over budget\n")


def test_kept_budgets_give_0() -> None:
    assert report({"a": lambda: measured("first", 0.5)}) == 0


def test_sigterm_ends_a_benchmark_as_an_exception() -> None:
    def interrupted() -> list[Figure]:
        signal.raise_signal(signal.SIGTERM)
        return []

    with pytest.raises(SystemExit) as ended:
        report({"a": interrupted})
    assert ended.value.code == 128 + signal.SIGTERM


def test_a_name_runs_that_benchmark_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    benches = {"one": lambda: measured("first", 0.5), "two": lambda: measured("second", 2.0)}
    monkeypatch.setattr(runner, "BENCHES", benches)
    assert runner.main(["one"]) == 0
    assert "second" not in capsys.readouterr().out
    assert runner.main([]) == 1


def test_an_unknown_name_is_refused_with_those_there_are(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit) as ended:
        runner.main(["idel"])
    assert ended.value.code == 2
    assert "known: " in capsys.readouterr().err


def test_every_listed_benchmark_has_its_name_from_its_module() -> None:
    assert all(measure.__module__ == f"bench.{name}" for name, measure in runner.BENCHES.items())
