from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from router.producers.prefix_parameters import Bounds
from warmroute import serve
from warmroute.errors import StartError

CONFIG = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - type: file-discovery
    parameters: {path: /etc/endpoints.yaml, watchFile: true}
  - type: metrics-data-source
    parameters: {interval: 3s}
  - type: queue-scorer
dataLayer:
  discovery: {pluginRef: file-discovery}
  sources:
    - pluginRef: metrics-data-source
"""


def options(*argv: str) -> serve.Options:
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    return serve.options(parser.parse_args(argv))


def test_the_defaults_are_those_of_the_field() -> None:
    chosen = options("--endpoints=e.yaml")
    told: dict[str, Any] = {
        "bind_address": "0.0.0.0",
        "grpc_port": 9002,
        "grpc_socket": None,
        "health_port": 9003,
        "http_port": 9090,
        "secure": True,
        "usage_sample": 50,
        "metrics_interval_s": None,
        "drain_s": 30.0,
        "max_body_bytes": 64 * 1024 * 1024,
        "endpoints": Path("e.yaml"),
        "watch_endpoints": True,
        "open_debug": False,
        "explains": False,
        "legacy_metric_names": False,
        "stream_metrics": False,
    }
    assert {name: getattr(chosen, name) for name in told} == told
    assert list(chosen.config.profiles) == ["default"]


def test_how_streams_end_is_told_where_it_is_asked_for() -> None:
    assert options("--endpoints=e", "--enable-grpc-stream-metrics").stream_metrics
    assert not options("--endpoints=e", "--enable-grpc-stream-metrics=false").stream_metrics


def test_the_index_is_bounded_unless_it_is_said_otherwise() -> None:
    assert options("--endpoints=e").bounds == Bounds(2 << 30, None)
    told = options("--endpoints=e", "--index-bytes=64Mi", "--index-bytes-per-endpoint=1Mi")
    assert told.bounds == Bounds(64 << 20, 1 << 20)
    assert options("--endpoints=e", "--index-bytes=0").bounds == Bounds()


def test_the_configuration_can_name_endpoints_and_intervals(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    chosen = options(f"--config-file={path}")
    assert chosen.endpoints == Path("/etc/endpoints.yaml")
    assert chosen.watch_endpoints
    assert chosen.metrics_interval_s is None
    assert chosen.config.data.metrics is not None
    assert chosen.config.data.metrics.interval_s == 3.0


def test_flags_win_over_the_configuration() -> None:
    chosen = options(
        f"--config-text={CONFIG}", "--endpoints=mine", "--refresh-metrics-interval=200ms"
    )
    assert chosen.endpoints == Path("mine")
    assert chosen.metrics_interval_s == 0.2


def test_flags_of_charts_that_change_nothing_are_accepted() -> None:
    chosen = options(
        "--endpoints=e",
        "--secure-serving=false",
        "--v=4",
        "--zap-encoder=json",
        "--zap-log-level",
        "info",
        "--enable-pprof",
        "--ha-enable-leader-election=false",
        "--metrics-endpoint-auth=false",
        "--allow-experimental-plugins",
        "--health-checking=true",
        "--endpoint-target-ports=8000,8001",
        "--pool-name=pool",
        "--pool-namespace",
        "default",
    )
    assert not chosen.secure


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ([], "no endpoints"),
        (["--pool-name=pool"], "no endpoints"),
        (["--endpoints=e", "--config-file=a", "--config-text=b"], "exclude each other"),
        (["--endpoints=e", "--config-file=/nowhere"], "/nowhere: "),
        (["--endpoints=e", "--config-text=kind: x"], "--config-text: "),
        (["--endpoints=e", "--refresh-metrics-interval=1ms"], "at least 50ms"),
    ],
    ids=str,
)
def test_what_cannot_run_is_said(argv: list[str], said: str) -> None:
    with pytest.raises(StartError, match=said):
        options(*argv)


def test_flags_of_the_protocol_are_taken_over() -> None:
    chosen = options(
        "--endpoints=e",
        "--cert-path=/certs",
        "--enable-cert-reload",
        "--eds-file=/eds/engines.json",
        "--rewrite-response-model",
        "--disable-endpoint-subset-filter",
    )
    assert (chosen.cert_path, chosen.cert_reload) == (Path("/certs"), True)
    assert chosen.eds_file == Path("/eds/engines.json")
    assert (chosen.rename_answers, chosen.subset_hints) == (True, False)
    plain = options("--endpoints=e")
    assert (plain.cert_path, plain.cert_reload, plain.eds_file) == (None, False, None)
    assert (plain.rename_answers, plain.subset_hints) == (False, True)


@pytest.mark.parametrize("flag", serve.REFUSED)
def test_a_flag_that_cannot_be_honoured_says_what_to_do_instead(
    flag: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        options("--endpoints=e.yaml", f"{flag}=x")
    assert serve.REFUSED[flag] in capsys.readouterr().err
    options("--endpoints=e.yaml", f"{flag}=")


def test_the_lowest_version_of_tls_is_that_of_grpc(capsys: pytest.CaptureFixture[str]) -> None:
    options("--endpoints=e.yaml", "--tls-min-version=VersionTLS12")
    with pytest.raises(SystemExit):
        options("--endpoints=e.yaml", "--tls-min-version=VersionTLS13")
    assert "VersionTLS12" in capsys.readouterr().err
