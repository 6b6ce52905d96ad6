from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import structlog

from simulator.config import BUNDLED_MODEL_DIR
from tokenizer_sidecar.server import SidecarConfig
from warmroute import tokenizer
from warmroute.cli import main
from warmroute.errors import StartError


def config(*argv: str) -> SidecarConfig:
    parser = argparse.ArgumentParser()
    tokenizer.add_arguments(parser)
    return tokenizer.config(parser.parse_args(argv))


def test_without_flags_it_is_the_service_s_own_defaults_and_the_bundled_model() -> None:
    assert config() == SidecarConfig(
        socket=tokenizer.DEFAULT_SOCKET, models={"tiny": BUNDLED_MODEL_DIR}
    )


def test_everything_that_the_service_bounds_has_a_flag(tmp_path: Path) -> None:
    chosen = config(
        f"--socket={tmp_path / 's'}",
        "--socket-mode=600",
        f"--model=a={tmp_path}",
        f"--model=b={BUNDLED_MODEL_DIR}",
        "--trust-request-chat-template",
        "--metrics-host=::1",
        "--metrics-port=9",
        "--workers=3",
        "--max-queued=0",
        "--max-in-flight=5",
        "--inline-bytes=6",
        "--cache-bytes=7",
        "--max-body-bytes=8",
        "--drain-timeout=9s",
    )
    assert chosen == SidecarConfig(
        socket=tmp_path / "s",
        models={"a": tmp_path, "b": BUNDLED_MODEL_DIR},
        socket_mode=0o600,
        trust_request_template=True,
        max_body_bytes=8,
        max_in_flight=5,
        max_queued=0,
        inline_bytes=6,
        cache_bytes=7,
        workers=3,
        metrics_port=9,
        metrics_host="::1",
        drain_s=9.0,
    )
    untouched = set(SidecarConfig.__struct_fields__) - {"backoff"}
    defaults = msgspec.structs.asdict(config())
    assert all(getattr(chosen, name) != defaults[name] for name in untouched)


def test_a_model_s_missing_folder_is_named() -> None:
    with pytest.raises(StartError, match="m=/nowhere: no such directory"):
        config("--model=m=/nowhere")


@pytest.fixture
def _own_log() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("_own_log")
def test_a_socket_in_a_missing_folder_is_one_line_that_names_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    socket = tmp_path / "nobody" / "made" / "this" / "s"
    assert main(["tokenizer", f"--socket={socket}"]) == 1
    last = capsys.readouterr().err.splitlines()[-1]
    assert last == f"warmroute tokenizer: {socket}: no folder {socket.parent}"
    assert not (tmp_path / "nobody").exists()
