from __future__ import annotations

import argparse
import subprocess
import sys
import time

import pytest

from tests.support.collector import collector
from tests.support.ports import free_port
from tests.support.records import record
from warmroute import serve
from warmroute.errors import StartError
from warmroute.parts import Parts
from warmroute.tracing import Tracing


async def test_spans_reach_the_collector_that_the_environment_names(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with collector() as kept:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", kept.url)
        tracing = Tracing()
        tracing.traces.ended(record(status=200, duration_ms=5.0))
        await tracing.close()
        assert {span.name for span in kept.spans} == {"gateway.request", "decide", "response"}
        assert kept.services == {"warmroute"}


async def test_the_environment_names_the_service_and_samples(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with collector() as kept:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", kept.url)
        monkeypatch.setenv("OTEL_SERVICE_NAME", "picker")
        tracing = Tracing()
        tracing.traces.ended(record(status=200))
        await tracing.close()
        assert kept.services == {"picker"}
        kept.spans.clear()
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "always_off")
        tracing = Tracing()
        tracing.traces.ended(record(status=200))
        await tracing.close()
        assert kept.spans == []


async def test_a_collector_that_is_away_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{free_port()}")
    tracing = Tracing()
    tracing.traces.ended(record(status=200))
    began = time.monotonic()
    await tracing.close()
    assert time.monotonic() - began < 20


def test_without_the_extra_the_flag_is_refused_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "warmroute.tracing", None)
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    options = serve.options(parser.parse_args(["--endpoints=e", "--tracing"]))
    with pytest.raises(StartError, match=r"--tracing: pip install 'warmroute\[otel\]'"):
        Parts(options)


def test_without_the_flag_nothing_of_it_is_loaded() -> None:
    code = (
        "import sys, warmroute.router_process;"
        "print([name for name in sys.modules if name.startswith('opentelemetry')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
