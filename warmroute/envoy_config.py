"""`warmroute envoy-config`: print the Envoy bootstrap."""

from __future__ import annotations

import argparse
from pathlib import Path

from router.config.errors import ConfigError
from router.config.load import load
from warmroute import flags
from warmroute.envoy_settings import EnvoySettings
from warmroute.errors import StartError

CLUSTERS = ("original-dst", "override-host")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    parser.add_argument("--config", type=Path, help="the router's configuration, to fit it")
    parser.add_argument(
        "--cluster",
        choices=CLUSTERS,
        help="how Envoy finds the engines; default: original-dst, or override-host where the "
        "configuration picks several endpoints for a request",
    )
    parser.add_argument(
        "--eds-file",
        default="/etc/warmroute/eds/engines.json",
        help="with override-host: the file the router keeps (serve --eds-file); Envoy watches its "
        "folder",
    )
    flags.add_rename_flag(parser)
    parser.add_argument("--host", default="0.0.0.0", help="address Envoy listens on")
    parser.add_argument("--port", type=flags.port, default=8080, help="port Envoy listens on")
    parser.add_argument("--admin-port", type=flags.port, help="Envoy's admin page on loopback")
    parser.add_argument("--router-host", default="127.0.0.1", help="where the router is")
    parser.add_argument("--grpc-port", type=flags.port, default=9002, help="its ext_proc port")
    parser.add_argument(
        "--grpc-socket", metavar="PATH", help="its Unix socket, in place of that port"
    )
    flags.add_switch(
        parser, "--secure-serving", default=True, text="the router's port speaks TLS, as it does"
    )
    parser.add_argument("--max-body-bytes", type=flags.body_bytes, default=64 * 1024 * 1024)
    parser.add_argument(
        "--request-body",
        choices=("buffered", "full-duplex"),
        default="buffered",
        help="how request bodies reach the router",
    )


def run(arguments: argparse.Namespace) -> int:
    """Print it."""
    # Importing the typed bootstrap takes 0.8 s and 50 MB: only this command and `up` pay.
    from warmroute.bootstrap import render

    cluster = arguments.cluster or _fitting(arguments.config)
    full_duplex = arguments.request_body == "full-duplex"
    settings = EnvoySettings(
        host=arguments.host,
        port=arguments.port,
        admin_port=arguments.admin_port,
        router_host=arguments.router_host,
        router_port=arguments.grpc_port,
        router_socket=arguments.grpc_socket,
        max_body_bytes=arguments.max_body_bytes,
        router_tls=arguments.secure_serving,
        full_duplex=full_duplex,
        full_duplex_response=full_duplex and arguments.rewrite_response_model,
        eds_file=arguments.eds_file if cluster == "override-host" else None,
    )
    print(render(settings), end="")
    return 0


def _fitting(config: Path | None) -> str:
    if config is None:
        return "original-dst"
    try:
        picks = load(config.read_text()).picks
    except (OSError, UnicodeDecodeError, ConfigError) as error:
        raise StartError(f"{config}: {error}") from error
    return "override-host" if picks > 1 else "original-dst"
