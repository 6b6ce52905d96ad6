from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from router.config.builtin import BUILTIN_PD
from router.pool.discovery.file import parse
from router.producers.prefix_parameters import Bounds
from warmroute import serve, up
from warmroute.errors import StartError
from warmroute.plan import Plan, envoy_command, make_plan, router_command, tokenizer_command
from warmroute.simulated import Engine, engine_command

REAL = """\
apiVersion: llm-d.ai/v1alpha1
kind: EndpointPickerConfig
plugins:
  - {type: file-discovery, parameters: {path: /etc/endpoints.yaml}}
dataLayer:
  discovery: {pluginRef: file-discovery}
"""


def plan(folder: Path, *argv: str) -> Plan:
    parser = argparse.ArgumentParser()
    up.add_arguments(parser)
    return make_plan(parser.parse_args(argv), folder)


def test_four_engines_on_addresses_of_their_own_are_the_default(tmp_path: Path) -> None:
    made = plan(tmp_path)
    assert made.engines == [Engine(f"127.0.0.{i}", 8000) for i in (1, 2, 3, 4)]
    assert made.endpoints is not None
    listing = parse(made.endpoints.read_bytes(), "endpoints.yaml")
    assert [(e.host, e.port, e.endpoint.kv_events[0].endpoint) for e in listing.entries] == [
        (f"127.0.0.{i}", 8000, f"tcp://127.0.0.{i}:5557") for i in (1, 2, 3, 4)
    ]
    taken = {(host, port) for host, port, _ in made.ports()}
    assert len(taken) == 4 + 4 * 3


def test_no_engine_is_simulated_where_real_ones_are_named(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text(REAL)
    by_config = plan(tmp_path, f"--config={config}")
    assert (by_config.engines, by_config.endpoints) == ([], None)
    assert f"--config-file={config}" in router_command(by_config)
    by_file = plan(tmp_path, "--endpoints=mine.yaml")
    assert by_file.engines == []
    assert "--endpoints=mine.yaml" in router_command(by_file)


def test_every_model_is_tokenized_and_the_first_is_served(tmp_path: Path) -> None:
    flags = [f"--model={name}={tmp_path}" for name in ("a", "b")]
    made = plan(tmp_path, *flags)
    assert [f for f in tokenizer_command(made) if f.startswith("--model")] == flags
    first = engine_command(made.engines[0], *next(iter(made.models.items())))
    assert [f for f in first if f.startswith("--model")] == flags[:1]


def test_with_prefill_and_decode_apart_a_configuration_for_it_runs(tmp_path: Path) -> None:
    made = plan(tmp_path, "--pd")
    (given,) = [f for f in router_command(made) if f.startswith("--config-file=")]
    assert Path(given.partition("=")[2]).read_text() == BUILTIN_PD
    own = tmp_path / "own.yaml"
    own.write_text(BUILTIN_PD)
    assert f"--config-file={own}" in router_command(plan(tmp_path, "--pd", f"--config={own}"))
    real = plan(tmp_path, "--pd", "--endpoints=mine.yaml")
    assert real.engines == []


def test_router_and_tokenizer_take_bodies_of_the_same_size(tmp_path: Path) -> None:
    made = plan(tmp_path, "--max-body-bytes=1000")
    for command in (tokenizer_command(made), router_command(made)):
        assert "--max-body-bytes=1000" in command


def test_what_bounds_and_keeps_the_index_is_passed_on_to_the_router(tmp_path: Path) -> None:
    given = ["--index-bytes=64Mi", "--index-bytes-per-endpoint=1Mi", f"--state-dir={tmp_path}"]
    parser = argparse.ArgumentParser()
    serve.add_arguments(parser)
    flags = router_command(plan(tmp_path, *given, "--state-interval=1500ms"))
    chosen = serve.options(parser.parse_args(flags[flags.index("serve") + 1 :]))
    assert chosen.bounds == Bounds(64 << 20, 1 << 20)
    assert (chosen.state_dir, chosen.state_interval_s) == (tmp_path, 1.5)
    assert not [flag for flag in router_command(plan(tmp_path)) if "state-dir" in flag]


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        (["--engine-host=nowhere"], "--engine-host"),
        (["--config=/nowhere"], "/nowhere"),
        (["--model=m=/nowhere"], "no such directory"),
    ],
    ids=str,
)
def test_what_cannot_be_planned_is_said(tmp_path: Path, argv: list[str], said: str) -> None:
    with pytest.raises(StartError, match=said):
        plan(tmp_path, *argv)


def test_several_picks_start_an_envoy_that_takes_a_list(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    picker = "  - {type: max-score-picker, parameters: {maxNumOfEndpoints: 2}}\n"
    config.write_text(REAL.replace("dataLayer", picker + "dataLayer", 1))
    made = plan(tmp_path, f"--config={config}")
    assert made.eds_file is not None
    assert made.eds_file.exists()
    assert f"--eds-file={made.eds_file}" in router_command(made)
    config.write_text(REAL)
    assert plan(tmp_path, f"--config={config}").eds_file is None


def test_renaming_answers_needs_their_bodies(tmp_path: Path) -> None:
    made = plan(tmp_path, "--rewrite-response-model", "--request-body=full-duplex")
    assert made.full_duplex_response
    assert "--rewrite-response-model" in router_command(made)
    assert not plan(tmp_path).full_duplex_response


def test_what_opens_the_debug_pages_reaches_the_router(tmp_path: Path) -> None:
    flags = (
        "--open-debug",
        "--explain-header",
        "--legacy-metric-names",
        "--enable-grpc-stream-metrics",
        "--tracing",
    )
    for given, value in ((flags, "True"), ((), "False")):
        command = router_command(plan(tmp_path, *given))
        assert [f"{flag}={value}" in command for flag in flags] == [True] * 5


def test_a_motor_configuration_says_what_engines_are_simulated(tmp_path: Path) -> None:
    config = tmp_path / "user_config.json"
    conductor = '"kv_conductor_config": {"block_size": 64, "http_server_port": 20000}'
    roles = ", ".join(f'"motor_engine_{role}_config": {{"a": 1}}' for role in ("prefill", "decode"))
    config.write_text(f"{{{conductor}, {roles}}}")
    made = plan(tmp_path, f"--config={config}", "--engines=2")
    assert [engine.role for engine in made.engines] == ["prefill", "decode"]
    assert (made.block_size, made.conductor_port) == (64, 20000)
    assert ("127.0.0.1", 20000, "http_server_port") in made.ports()
    assert "--block-size=64" in engine_command(made.engines[0], "m", tmp_path, made.block_size)


def test_envoy_meets_the_router_on_a_socket(tmp_path: Path) -> None:
    made = plan(tmp_path)
    assert f"--grpc-socket={made.router_socket}" in router_command(made)
    envoy_command(made)
    bootstrap = json.loads((tmp_path / "envoy.json").read_text())
    clusters = {one["name"]: one for one in bootstrap["staticResources"]["clusters"]}
    assert str(made.router_socket) in json.dumps(clusters["warmroute"])
