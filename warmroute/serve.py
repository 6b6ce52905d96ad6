"""`warmroute serve`: the router (endpoint picker). IO."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import msgspec
import structlog

from router.config.builtin import BUILTIN
from router.config.errors import ConfigError
from router.config.load import Config, load
from router.pool.discovery.file import DiscoveryError
from router.pool.sources import MIN_INTERVAL_S
from router.producers.prefix_parameters import Bounds
from warmroute import flags, log
from warmroute.errors import StartError
from warmroute.running import run as run_service
from warmroute.tokenizer import DEFAULT_SOCKET

IGNORED = (
    "--allow-experimental-plugins",
    "--endpoint-selector",
    "--endpoint-target-ports",
    "--grpc-max-recv-msg-size",
    "--grpc-max-send-msg-size",
    "--metrics-staleness-threshold",
    "--refresh-prometheus-metrics-interval",
    "--enable-pprof",
    "--ha-enable-leader-election",
    "--metrics-endpoint-auth",
    "--pool-group",
    "--pool-namespace",
    "--v",
    "-v",
    "--zap-devel",
    "--zap-encoder",
    "--zap-log-level",
    "--zap-stacktrace-level",
    "--zap-time-encoding",
)
"""Flags that charts pass to an endpoint picker and that change nothing here."""

_EXTRACTOR = "name the metric in the parameters of core-metrics-extractor"
_NO_METRICS_TLS = "the metrics port speaks plain HTTP: put it behind what ends TLS for it"
REFUSED = {
    "--cache-info-metric": _EXTRACTOR,
    "--kv-cache-usage-percentage-metric": _EXTRACTOR,
    "--lora-info-metric": _EXTRACTOR,
    "--total-queued-requests-metric": _EXTRACTOR,
    "--total-running-requests-metric": _EXTRACTOR,
    "--metrics-cert-dir": _NO_METRICS_TLS,
    "--metrics-client-ca-file": _NO_METRICS_TLS,
    "--tls-cipher-suites": "gRPC reads them from the environment, as GRPC_SSL_CIPHER_SUITES",
}
"""Flags that somebody relies on where they are given, and what to do instead."""


class Options(msgspec.Struct, frozen=True, kw_only=True):
    """What the flags say.

    Attributes:
        config: The configuration to run.
        config_file: Where it stands and is followed; None: it stays as it is.
        endpoints: File that names the endpoints.
        endpoints_configured: The configuration says which file that is.
        watch_endpoints: Read it again when it changes.
        grpc_socket: Unix socket for an Envoy on the same machine; None: none.
        metrics_interval_s: Time between two scrapes of one endpoint; None: as configured.
        drain_s: How long requests keep being picked after a signal to stop.
        cert_path: Folder of the ext_proc port's certificate; None: self-signed.
        cert_reload: Take over files there that change.
        eds_file: File in which Envoy finds the endpoints; None: none is written.
        rename_answers: Answers to rewritten requests name the client's model.
        subset_hints: Hints of the data plane narrow the candidates.
        open_debug: Clients on other machines may read `/debug/*`, too.
        explains: Clients may ask for decisions in a header.
        legacy_metric_names: Metrics have their older names, too.
        stream_metrics: Metrics tell how ext_proc streams end, too.
        tracing: Spans are sent to an OpenTelemetry collector.
        pool_name: What metrics call the pool.
        bounds: What an index may take.
        state_dir: Folder that keeps what the next router can go on with; None: nothing is kept.
        state_interval_s: Time between two savings.
    """

    config: Config
    config_file: Path | None
    endpoints: Path
    endpoints_configured: bool
    watch_endpoints: bool
    bind_address: str
    grpc_port: int
    grpc_socket: Path | None
    health_port: int
    http_port: int
    secure: bool
    cert_path: Path | None
    cert_reload: bool
    tokenizer_socket: str
    eds_file: Path | None
    max_body_bytes: int
    usage_sample: int
    emit_scores: bool
    allow_kv_transfer_params: bool
    rename_answers: bool
    subset_hints: bool
    open_debug: bool
    explains: bool
    legacy_metric_names: bool
    stream_metrics: bool
    tracing: bool
    pool_name: str
    metrics_interval_s: float | None
    drain_s: float
    bounds: Bounds
    state_dir: Path | None
    state_interval_s: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    add = parser.add_argument
    add("--config-file", type=Path, help="an EndpointPickerConfig; default: the built-in one")
    add("--config-text", help="the same, as text")
    add("--endpoints", type=Path, help="a file naming the endpoints")
    add("--bind-address", default="0.0.0.0", help="address of all ports")
    add("--grpc-port", type=flags.port, default=9002, help="port of ext_proc")
    add("--grpc-socket", type=Path, metavar="PATH", help="serve ext_proc here, too, without TLS")
    add("--grpc-health-port", type=flags.port, default=9003, help="port of gRPC health checks")
    add("--metrics-port", type=flags.port, default=9090, help="port of metrics and debug pages")
    add("--tokenizer-socket", type=Path, default=DEFAULT_SOCKET, help="the sidecar's Unix socket")
    add("--max-body-bytes", type=flags.body_bytes, default=64 * 1024 * 1024)
    add("--pool-name", default="", metavar="NAME", help="what metrics call the pool")
    add("--usage-sample", type=flags.count, default=50, metavar="N", help="read usage of 1 in N")
    add("--refresh-metrics-interval", type=flags.duration, help="between two scrapes; default 1s")
    add("--drain-timeout", type=flags.duration, default=30.0, help="picking goes on so long")
    add("--cert-path", type=Path, metavar="DIR", help="tls.key and tls.crt of the ext_proc port")
    add("--eds-file", type=Path, metavar="FILE", help="keep the endpoints here, for Envoy")
    add("--log-format", choices=("json", "text"), default="json")
    add("--log-level", choices=log.LEVELS, default="info", help="leave out what is below")
    flags.add_index_flags(parser)
    switch = flags.add_switch
    switch(parser, "--secure-serving", default=True, text="TLS with a self-signed certificate")
    switch(parser, "--health-checking", default=True, text="on the ext_proc port: always there")
    switch(parser, "--enable-cert-reload", default=False, text="follow the files of --cert-path")
    switch(parser, "--disable-endpoint-subset-filter", default=False, text="ignore subset hints")
    switch(parser, "--emit-endpoint-scores", default=False, text="tell them in dynamic metadata")
    flags.add_rename_flag(parser)
    switch(parser, "--allow-kv-transfer-params", default=False, text="let clients send them")
    flags.add_debug_flags(parser)
    add("--tls-min-version", type=flags.tls_version, help="VersionTLS12, which gRPC keeps anyway")
    for name, instead in REFUSED.items():
        add(name, type=flags.refused(instead), help=argparse.SUPPRESS)
    for name in IGNORED:
        add(name, nargs="?", action="append", dest="ignored", help=argparse.SUPPRESS)


def options(arguments: argparse.Namespace) -> Options:
    """Raises StartError."""
    config = _config(arguments)
    endpoints, watch = arguments.endpoints, True
    if endpoints is None:
        if config.discovery is None:
            raise StartError(
                "no endpoints: name a file with --endpoints or in the configuration's "
                "dataLayer.discovery"
            )
        endpoints, watch = Path(config.discovery.path), config.discovery.watch_file
    return Options(
        config=config,
        config_file=arguments.config_file,
        endpoints=endpoints,
        endpoints_configured=arguments.endpoints is None,
        watch_endpoints=watch,
        bind_address=arguments.bind_address,
        grpc_port=arguments.grpc_port,
        grpc_socket=arguments.grpc_socket,
        health_port=arguments.grpc_health_port,
        http_port=arguments.metrics_port,
        secure=arguments.secure_serving,
        cert_path=arguments.cert_path,
        cert_reload=arguments.enable_cert_reload,
        eds_file=arguments.eds_file,
        tokenizer_socket=str(arguments.tokenizer_socket),
        max_body_bytes=arguments.max_body_bytes,
        usage_sample=arguments.usage_sample,
        emit_scores=arguments.emit_endpoint_scores,
        allow_kv_transfer_params=arguments.allow_kv_transfer_params,
        rename_answers=arguments.rewrite_response_model,
        subset_hints=not arguments.disable_endpoint_subset_filter,
        open_debug=arguments.open_debug,
        explains=arguments.explain_header,
        legacy_metric_names=arguments.legacy_metric_names,
        stream_metrics=arguments.enable_grpc_stream_metrics,
        tracing=arguments.tracing,
        pool_name=arguments.pool_name,
        metrics_interval_s=_metrics_interval(arguments),
        drain_s=arguments.drain_timeout,
        bounds=Bounds(arguments.index_bytes or None, arguments.index_bytes_per_endpoint or None),
        state_dir=arguments.state_dir,
        state_interval_s=arguments.state_interval,
    )


def _config(arguments: argparse.Namespace) -> Config:
    if arguments.config_file is not None and arguments.config_text is not None:
        raise StartError("--config-file and --config-text exclude each other")
    where = arguments.config_file or "--config-text"
    try:
        if arguments.config_file is not None:
            return load(arguments.config_file.read_text())
        return load(BUILTIN if arguments.config_text is None else arguments.config_text)
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        raise StartError(f"{where}: {error}") from error


def _metrics_interval(arguments: argparse.Namespace) -> float | None:
    interval: float | None = arguments.refresh_metrics_interval
    if interval is not None and interval < MIN_INTERVAL_S:
        raise StartError("--refresh-metrics-interval must be at least 50ms")
    return interval


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal, then drain."""
    # Imported late: gRPC and ZMQ take their time, and a wrong flag should be told at once.
    from warmroute.router_process import serve

    chosen = options(arguments)
    # Standard output: whoever starts the router reads its events there.
    log.configure(arguments.log_format, sys.stdout, arguments.log_level)
    if arguments.ignored:
        structlog.get_logger().warning("flags.ignored", known=IGNORED)
    return run_service(lambda ready, stop: serve(chosen, ready, stop), DiscoveryError)
