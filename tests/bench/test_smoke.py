"""Each benchmark in its smallest size: it runs to its end and leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from bench import bodies, envoy_requests, idle, long_prompts, telemetry
from bench.load import Load
from bench.measure import spend
from bench.stack import StackError, stack


def test_the_idle_benchmark_scrapes_all_its_endpoints() -> None:
    (figure,) = idle.figures(endpoints=3, measured_s=1.0)
    assert 0 <= figure.value < 1
    assert figure.note == "3 scrapes/s"


def test_requests_through_envoy_are_measured() -> None:
    figures = envoy_requests.figures(envoy_requests.Size(warm_up=1, requests=10, rounds=1))
    assert [figure.unit for figure in figures] == ["core-ms", "core-ms", "req/s", "ms", "ms"]


def test_bodies_are_measured_in_every_mode() -> None:
    figures = bodies.figures(bodies.Size(bodies=((1024, 4), (100_000, 4)), rounds=1))
    assert [figure.name for figure in figures] == [
        f"body of {size}, {mode}" for mode in bodies.MODES for size in ("1 KiB", "97 KiB")
    ]
    assert all(figure.value >= 0 for figure in figures)


@pytest.mark.parametrize("length", [100, 1024, 123_457])
def test_a_body_has_the_length_that_is_asked_for(length: int) -> None:
    made = bodies.body(length)
    assert len(made) == length
    assert msgspec.json.decode(made)["input"]


def test_long_prompts_are_warm_on_every_endpoint() -> None:
    size = long_prompts.Size(engines=2, tokens=2000, warm=2, cold=2, rounds=1)
    warm, cold = long_prompts.figures(size)
    assert warm.value >= 0
    assert cold.value >= 0


def test_requests_that_got_no_tokens_are_no_measurement() -> None:
    with stack(1) as running:
        load = Load(
            host=running.host,
            port=running.port,
            path="/v1/completions",
            bodies=[b'{"model":"tiny","prompt":[1,2,3]}'],
            connections=1,
        )
        with pytest.raises(StackError, match="1 of 1 requests had no tokens"):
            spend(running, load)


def test_all_processes_are_stopped_at_the_end() -> None:
    with stack(1) as running:
        pids = [process.pid for process in running.processes.values()]
        assert all(Path(f"/proc/{pid}").exists() for pid in [*pids, running.engines_pid])
    assert not any(Path(f"/proc/{pid}").exists() for pid in [*pids, running.engines_pid])


def test_a_process_that_does_not_start_is_an_error_with_its_last_words() -> None:
    with pytest.raises(StackError, match="router ended by itself") as failed, stack(1, "--no-such"):
        pass
    assert any("--no-such" in note for note in failed.value.__notes__)


def test_what_telemetry_adds_is_measured_beside_what_a_request_costs() -> None:
    added, share = telemetry.figures(engines=1, runs=3, requests=20)
    assert (added.unit, share.unit) == ("us", "%")
    assert share.value > 0
