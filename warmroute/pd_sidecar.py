"""`warmroute pd-sidecar`: the decode-side proxy of prefill/decode disaggregation."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from pd_sidecar.allow import Address, ListingError, parse_address
from pd_sidecar.config import Config
from pd_sidecar.connectors.table import CONNECTORS
from pd_sidecar.encode import CONNECTORS as CONNECTORS_OF_MEDIA
from pd_sidecar.server import serve
from warmroute import flags, log
from warmroute.errors import StartError
from warmroute.running import run as run_service

_DEFAULTS = Config()

BOOTSTRAP_PORT = "SGLANG_BOOTSTRAP_PORT"
"""Environment variable that llm-d's sidecar reads."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command; names are those of llm-d's sidecar where it has one."""
    add, switch = parser.add_argument, flags.add_switch
    add("--host", default=_DEFAULTS.host, help="address of the proxy")
    add("--port", type=flags.port, default=_DEFAULTS.port, help="port of the proxy")
    add("--model-server-host", default=_DEFAULTS.engine_host, help="where the decode engine is")
    add("--model-server-port", "--vllm-port", type=flags.port, default=_DEFAULTS.engine_port)
    add("--data-parallel-size", type=flags.count, default=1, help="ranks, a port each")
    add("--kv-connector", "--connector", choices=sorted(CONNECTORS), default=_DEFAULTS.connector)
    add("--ec-connector", choices=CONNECTORS_OF_MEDIA, help="encode media apart; default: do not")
    add("--sglang-bootstrap-port", type=flags.port, help=f"default: ${BOOTSTRAP_PORT} or 8998")
    add("--endpoints", type=Path, help="file whose prefill and encode engines may be called")
    add("--allow", type=_address, action="append", default=[], metavar="HOST:PORT",
        help="an engine that may be called; repeatable")  # fmt: skip
    switch(parser, "--enable-ssrf-protection", default=True, text="call only allowed engines")
    switch(
        parser, "--enable-prefiller-sampling", default=False, text="of several named take any one"
    )
    switch(parser, "--secure-proxy", default=False, text="TLS; only false is supported")
    add("--prefill-timeout", type=flags.duration, default=_DEFAULTS.prefill_timeout_s)
    add("--prefill-max-retries", type=flags.count, default=0, help="after a 502, 503 or 504")
    add("--prefill-retry-backoff", type=flags.duration, default=_DEFAULTS.prefill_backoff_s)
    add("--max-body-bytes", type=flags.body_bytes, default=_DEFAULTS.max_body_bytes)
    add("--metrics-port", type=flags.port, help="port of /metrics; default: none")
    add("--log-format", choices=("text", "json"), default="text")


def config(arguments: argparse.Namespace) -> Config:
    """What the flags say. Raises StartError."""
    protected = arguments.enable_ssrf_protection
    if protected and arguments.endpoints is None and not arguments.allow:
        raise StartError(
            "nobody may be called: name prefill engines with --endpoints FILE or --allow HOST:PORT,"
            " or let any be called with --enable-ssrf-protection=false"
        )
    if arguments.secure_proxy:
        raise StartError("--secure-proxy: TLS is not supported; put false")
    if not 1 <= arguments.data_parallel_size <= 64:
        raise StartError("--data-parallel-size must be between 1 and 64")
    return Config(
        host=arguments.host,
        port=arguments.port,
        engine_host=arguments.model_server_host,
        engine_port=arguments.model_server_port,
        ranks=arguments.data_parallel_size,
        connector=arguments.kv_connector,
        encodes=arguments.ec_connector is not None,
        bootstrap_port=arguments.sglang_bootstrap_port or _bootstrap_port(),
        endpoints=arguments.endpoints,
        allowed=tuple(arguments.allow),
        open=not protected,
        sample_prefillers=arguments.enable_prefiller_sampling,
        prefill_timeout_s=arguments.prefill_timeout,
        prefill_retries=arguments.prefill_max_retries,
        prefill_backoff_s=arguments.prefill_retry_backoff,
        max_body_bytes=arguments.max_body_bytes,
        metrics_port=arguments.metrics_port,
    )


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal."""
    log.configure(arguments.log_format)
    chosen = config(arguments)
    return run_service(lambda ready, stop: serve(chosen, ready, stop), ListingError)


def _address(text: str) -> Address:
    address = parse_address(text)
    if address is None:
        raise argparse.ArgumentTypeError(f"expected HOST:PORT, got {text!r}")
    return address


def _bootstrap_port() -> int:
    given = os.environ.get(BOOTSTRAP_PORT, "")
    try:
        return flags.port(given) if given else _DEFAULTS.bootstrap_port
    except argparse.ArgumentTypeError as error:
        raise StartError(f"{BOOTSTRAP_PORT}: {error}") from error
