from __future__ import annotations

import argparse
from pathlib import Path

import pytest

from pd_sidecar.allow import listed
from router.pool.discovery.file import parse
from tests.support.commands import parsed
from warmroute import up
from warmroute.engine import config as engine_config
from warmroute.errors import StartError
from warmroute.pd_sidecar import config as sidecar_config
from warmroute.simulated import (
    Engine,
    endpoints_file,
    engine_command,
    engines,
    sidecar_command,
)


def chosen(*argv: str) -> list[Engine]:
    parser = argparse.ArgumentParser()
    up.add_arguments(parser)
    arguments = parser.parse_args(argv)
    return list(engines(arguments, pd=arguments.pd))


@pytest.mark.parametrize(
    ("count", "roles"),
    [
        (2, ["prefill", "decode"]),
        (3, ["prefill", "decode", "decode"]),
        (4, ["prefill", "prefill", "decode", "decode"]),
    ],
)
def test_half_of_the_engines_prefill_and_the_rest_decode(count: int, roles: list[str]) -> None:
    assert [engine.role for engine in chosen("--pd", f"--engines={count}")] == roles


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--pd", "--engines=1"], "at least 2"),
        (["--pd", "--engine-port=65400"], "65600"),
        (["--engine-host=nowhere"], "--engine-host"),
    ],
)
def test_what_cannot_be_is_refused(argv: list[str], said: str) -> None:
    with pytest.raises(StartError, match=said):
        chosen(*argv)


def test_every_port_is_named_once() -> None:
    taken = [(host, port) for e in chosen("--pd") for host, port, _ in e.ports()]
    assert len(taken) == len(set(taken)) == 4 * 3 + 2


def test_router_and_sidecar_read_the_same_file() -> None:
    text = endpoints_file(chosen("--pd"))
    listing = parse(text, "endpoints.yaml")
    assert listing.warnings == ()
    assert [e.endpoint.role for e in listing.entries] == ["prefill"] * 2 + ["decode"] * 2
    assert listed(text) == {("127.0.0.1", 8000), ("127.0.0.2", 8000)}


def test_a_decode_engine_stands_behind_its_sidecar(monkeypatch: pytest.MonkeyPatch) -> None:
    decode = Engine("127.0.0.3", 8000, "decode")

    def given(command: list[str]) -> argparse.Namespace:
        return parsed(command[command.index("warmroute") + 1 :], monkeypatch)

    sidecar = sidecar_config(given(sidecar_command(decode, Path("e.yaml"))))
    assert (sidecar.host, sidecar.port) == ("127.0.0.3", 8000)
    assert (sidecar.engine_host, sidecar.engine_port) == ("127.0.0.3", 8200)
    assert (sidecar.endpoints, sidecar.open) == (Path("e.yaml"), False)
    behind = engine_config(given(engine_command(decode, "tiny", Path())))
    assert (behind.port, behind.kv_transfer) == (8200, True)
    alone = engine_config(given(engine_command(Engine("h", 8000), "tiny", Path())))
    assert (alone.port, alone.kv_transfer) == (8000, False)
