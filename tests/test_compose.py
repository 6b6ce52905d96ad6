"""docker-compose.yml, the files it mounts and its image, as far as no container is needed."""

from __future__ import annotations

import ipaddress
import re
import shutil
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

from router.pool.discovery.file import Listing, parse
from tests.support.bootstraps import BOOTSTRAPS
from tests.support.commands import parsed
from warmroute.cli import COMMANDS

ROOT = Path(__file__).parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
DOCKERFILE = (ROOT / "Dockerfile").read_text()

OURS = sorted(name for name, service in SERVICES.items() if "entrypoint" not in service)
EVERY_SERVICE = pytest.mark.parametrize("name", sorted(SERVICES))


def test_docker_compose_reads_the_file() -> None:
    if shutil.which("docker-compose") is None:
        pytest.skip("docker-compose is not installed; the other tests read the file themselves")
    command = ["docker-compose", "--file", str(ROOT / "docker-compose.yml"), "config", "--services"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.split()) == sorted(SERVICES)


def test_every_role_is_there() -> None:
    assert sorted(SERVICES) == ["engine-1", "engine-2", "envoy", "router", "tokenizer"]


@pytest.mark.parametrize("name", OURS)
def test_the_command_accepts_its_flags(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    arguments = parsed(SERVICES[name]["command"], monkeypatch)
    assert arguments.command in COMMANDS


@EVERY_SERVICE
def test_every_service_runs_the_one_image_and_can_tell_how_it_is(name: str) -> None:
    service = SERVICES[name]
    assert (service["build"], service["image"]) == (".", "warmroute:local")
    assert service["healthcheck"]["test"][:3] == ["CMD", "python", "-c"]
    compile(service["healthcheck"]["test"][3], name, "exec")


@EVERY_SERVICE
def test_what_is_mounted_exists(name: str) -> None:
    for volume in SERVICES[name].get("volumes", ()):
        source, _, options = volume.partition(":")
        if source.startswith("."):
            assert (ROOT / source).is_dir()
            assert options.endswith(":ro")
        else:
            assert source in COMPOSE["volumes"]


def test_only_the_clients_port_and_the_pages_are_published_on_loopback() -> None:
    published = [port for service in SERVICES.values() for port in service.get("ports", ())]
    hosts, outer, inner = zip(*(port.rsplit(":", 2) for port in published), strict=True)
    assert all(ipaddress.ip_address(host).is_loopback for host in hosts)
    assert sorted(outer) == sorted(inner) == ["8080", "9090"]


def test_envoy_runs_a_bootstrap_that_finds_the_router() -> None:
    service = SERVICES["envoy"]
    path = Path(service["command"][service["command"].index("--config-path") + 1])
    (mount,) = service["volumes"]
    source, target, _ = mount.split(":")
    assert path.parent == Path(target)
    assert (ROOT / source / path.name).exists()
    settings = BOOTSTRAPS[path.name]
    assert settings.router_host in SERVICES
    assert str(settings.admin_port) in service["healthcheck"]["test"][3]


def test_router_and_bootstrap_agree_on_port_plaintext_and_body_cap(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    router, settings = (
        parsed(SERVICES["router"]["command"], monkeypatch),
        BOOTSTRAPS["compose.json"],
    )
    assert router.grpc_port == settings.router_port
    assert router.max_body_bytes == settings.max_body_bytes
    assert router.secure_serving is False


def test_router_and_tokenizer_share_the_sockets_volume(monkeypatch: pytest.MonkeyPatch) -> None:
    router = parsed(SERVICES["router"]["command"], monkeypatch)
    tokenizer = parsed(SERVICES["tokenizer"]["command"], monkeypatch)
    assert router.tokenizer_socket == tokenizer.socket
    for name in ("router", "tokenizer"):
        assert f"tokenizer:{tokenizer.socket.parent}" in SERVICES[name]["volumes"]
    assert str(tokenizer.socket) in SERVICES["tokenizer"]["healthcheck"]["test"][3]


def test_the_endpoints_file_names_the_engines_at_their_ports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listing = endpoints(monkeypatch)
    assert listing.warnings == ()
    assert listing.hostnames() == {name for name in SERVICES if name.startswith("engine-")}
    for entry in listing.entries:
        engine = parsed(SERVICES[entry.host]["command"], monkeypatch)
        assert engine.host == "0.0.0.0"
        assert entry.port == engine.port
        (events,) = entry.endpoint.kv_events
        assert events.endpoint == f"tcp://{entry.host}:{engine.kv_events_port}"
        assert events.replay == f"tcp://{entry.host}:{engine.replay_port}"


def endpoints(monkeypatch: pytest.MonkeyPatch) -> Listing:
    """The file that the router is told to read, found through its mount."""
    path: Path = parsed(SERVICES["router"]["command"], monkeypatch).endpoints
    mounts = (volume.split(":") for volume in SERVICES["router"]["volumes"])
    (source,) = [mount[0] for mount in mounts if mount[1] == str(path.parent)]
    return parse((ROOT / source / path.name).read_bytes(), path.name)


# -- the image ----------------------------------------------------------------------------------


def test_the_image_is_built_from_what_exists_and_holds_every_package() -> None:
    copied = {
        word
        for line in re.findall(r"^COPY (?!--from)(.*)$", DOCKERFILE, re.MULTILINE)
        for word in line.split()[:-1]
    }
    for name in copied:
        assert (ROOT / name).exists(), name
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]) <= copied


def test_the_image_runs_the_command_as_nobody_special() -> None:
    last = DOCKERFILE.rpartition("FROM")[2]
    (user,) = re.findall(r"^USER (.*)$", last, re.MULTILINE)
    assert user not in {"root", "0"}
    assert re.search(rf"useradd .*--uid [1-9]\d+ .*{user}$", last.replace(" \\", ""), re.MULTILINE)
    assert re.search(r'^ENTRYPOINT \["warmroute"\]$', last, re.MULTILINE)


def test_the_image_has_a_folder_for_the_socket_that_its_user_owns() -> None:
    user = re.findall(r"^USER (.*)$", DOCKERFILE, re.MULTILINE)[0]
    assert re.search(rf"install -d -o {user} .* /run/warmroute$", DOCKERFILE, re.MULTILINE)
