from __future__ import annotations

from pathlib import Path

import pytest

from pd_sidecar.config import Config
from tests.support.commands import parsed
from warmroute.errors import StartError
from warmroute.pd_sidecar import BOOTSTRAP_PORT, config


def made(monkeypatch: pytest.MonkeyPatch, *flags: str) -> Config:
    return config(parsed(["pd-sidecar", *flags], monkeypatch))


def test_ports_and_allowed_engines_are_taken_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(BOOTSTRAP_PORT, raising=False)
    chosen = made(
        monkeypatch,
        "--port=8001",
        "--model-server-port=8201",
        "--allow=p.example:8000",
        "--allow=[::1]:8000",
        "--endpoints=e.yaml",
    )
    assert chosen == Config(
        port=8001,
        engine_port=8201,
        allowed=(("p.example", 8000), ("::1", 8000)),
        endpoints=Path("e.yaml"),
    )


def test_flags_of_llm_ds_sidecar_are_understood(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BOOTSTRAP_PORT, "9998")
    chosen = made(
        monkeypatch,
        "--vllm-port=8201",
        "--connector=sglang",
        "--enable-ssrf-protection=false",
        "--enable-prefiller-sampling",
        "--secure-proxy=false",
        "--data-parallel-size=2",
        "--prefill-max-retries=3",
        "--prefill-retry-backoff=50ms",
    )
    assert chosen == Config(
        engine_port=8201,
        connector="sglang",
        bootstrap_port=9998,
        open=True,
        sample_prefillers=True,
        ranks=2,
        prefill_retries=3,
        prefill_backoff_s=0.05,
    )


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ([], "nobody may be called"),
        (["--allow=p:1", "--secure-proxy"], "TLS is not supported"),
        (["--allow=p:1", "--data-parallel-size=0"], "between 1 and 64"),
    ],
)
def test_it_refuses_to_start_where_it_could_not_work(
    flags: list[str], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(StartError, match=said):
        made(monkeypatch, *flags)


def test_a_bootstrap_port_that_is_none_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(BOOTSTRAP_PORT, "x")
    with pytest.raises(StartError, match=BOOTSTRAP_PORT):
        made(monkeypatch, "--allow=p:1")


def test_an_address_without_a_port_is_no_address(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit):
        made(monkeypatch, "--allow=p.example")
