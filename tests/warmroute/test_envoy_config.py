from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from warmroute.cli import main

SEVERAL = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - {type: max-score-picker, parameters: {maxNumOfEndpoints: 3}}
"""


def cluster(capsys: pytest.CaptureFixture[str], *argv: str, name: str = "engines") -> Any:
    """The cluster of engines, or the one named, in what is printed."""
    assert main(["envoy-config", *argv]) == 0
    printed = json.loads(capsys.readouterr().out)
    clusters = printed["staticResources"]["clusters"]
    return next(c for c in clusters if c["name"] == name)


def test_envoy_goes_where_it_is_told_unless_it_is_asked_to_know_the_engines(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert cluster(capsys)["type"] == "ORIGINAL_DST"
    made = cluster(capsys, "--cluster=override-host", "--eds-file=/x/e.json")
    assert made["edsClusterConfig"]["edsConfig"]["pathConfigSource"]["path"] == "/x/e.json"


def test_a_configuration_with_several_picks_needs_an_envoy_that_takes_a_list(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(SEVERAL)
    assert cluster(capsys, f"--config={config}")["type"] == "EDS"
    assert cluster(capsys, f"--config={config}", "--cluster=original-dst")["type"] == "ORIGINAL_DST"
    config.write_text(SEVERAL.replace("3", "1"))
    assert cluster(capsys, f"--config={config}")["type"] == "ORIGINAL_DST"


def test_a_configuration_that_cannot_be_read_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    assert main(["envoy-config", f"--config={tmp_path / 'none.yaml'}"]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_router_is_reached_by_port_with_tls_or_by_socket_without(
    capsys: pytest.CaptureFixture[str],
) -> None:
    by_port = cluster(capsys, name="warmroute")
    assert by_port["transportSocket"]["name"] == "envoy.transport_sockets.tls"
    by_socket = cluster(capsys, "--grpc-socket=/run/r.sock", name="warmroute")
    (group,) = by_socket["loadAssignment"]["endpoints"]
    (one,) = group["lbEndpoints"]
    assert one["endpoint"]["address"] == {"pipe": {"path": "/run/r.sock"}}
    assert "transportSocket" not in by_socket
