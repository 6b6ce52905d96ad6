"""The router's parts, wired together, and the order in which they start and stop. IO."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Callable

import grpc
import structlog
import zmq
from aiohttp import web
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from indexer.subscriber import Subscriptions
from router.config.duration import seconds
from router.config.load import Config
from router.director import Director
from router.extproc.health import Health
from router.extproc.pb.ext_proc_pb2_grpc import add_ExternalProcessorServicer_to_server
from router.extproc.server import ExternalProcessor
from router.pool.discovery.watch import FileDiscovery
from router.pool.endpoint import Endpoint
from router.pool.pool import Pool
from router.pool.scrape import Scraper
from router.producers.inflight import InFlightLoad, InFlightLoadParameters
from router.producers.prefix import PrecisePrefix
from router.producers.prefix_parameters import PrecisePrefixParameters
from router.producers.tokens import SidecarClient, TokenParameters, TokenProducer
from router.producers.types import Producer
from router.telemetry.decisions import Decisions
from router.telemetry.http import Pages, application
from router.telemetry.journal import Journal
from router.telemetry.match import Matcher
from router.telemetry.metrics import Metrics
from router.telemetry.state import State
from warmroute.errors import StartError
from warmroute.serve import Options
from warmroute.tls import self_signed

log = structlog.get_logger()

ROOM_BYTES = 1024 * 1024
"""What a gRPC message may carry besides a body."""

STOP_GRACE_S = 5.0
"""How long streams that are still open after the drain window may take to end."""

TICK_S = 0.25
"""Between two looks at what changes with time: guesses, models, lost event streams."""


ProducerParameters = TokenParameters | PrecisePrefixParameters | InFlightLoadParameters
"""Whatever the catalog lists as a producer; a new one must be built below."""


class Parts:
    """The parts of one router, built from its configuration; nothing runs yet."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.pool = Pool()
        self.metrics = Metrics()
        self.decisions = Decisions()
        self.sidecars: list[SidecarClient] = []
        self.prefixes: list[PrecisePrefix] = []
        self.loads: list[InFlightLoad] = []
        self.producers = self._producers(options.config)
        self.director = Director(
            profiles=options.config.profiles,
            handler=options.config.handler,
            pool=self.pool,
            producers=self.producers,
            observer=Journal(self.metrics, self.decisions),
            rng=random.Random(),
            clock=time.time,
            usage_sample=options.usage_sample,
            allow_kv_transfer_params=options.allow_kv_transfer_params,
        )
        self.processor = ExternalProcessor(self.director, options.max_body_bytes)
        self.discovery = FileDiscovery(
            options.endpoints, self.pool, watch_file=options.watch_endpoints
        )
        self.scraper = Scraper(
            self.pool,
            interval_s=options.metrics_interval_s,
            path=options.config.metrics.path,
            port=options.config.metrics.port,
        )

    def _producers(self, config: Config) -> list[Producer]:
        model = next(
            (p.value.model_name for p in config.producers if isinstance(p.value, TokenParameters)),
            "",
        )
        producers: list[Producer] = []
        for plugin in config.producers:
            parameters: ProducerParameters = plugin.value
            match parameters:
                case TokenParameters():
                    producers.append(self._tokens(plugin.name, parameters))
                case PrecisePrefixParameters():
                    prefix = PrecisePrefix(
                        plugin.name,
                        parameters,
                        resolve=self.pool.resolve_model,
                        clock=time.monotonic,
                        notified=plugin.name in config.notified,
                        base_model=model or None,
                    )
                    self.prefixes.append(prefix)
                    producers.append(prefix)
                case InFlightLoadParameters():
                    load = InFlightLoad(plugin.name)
                    self.loads.append(load)
                    producers.append(load)
        return producers

    def _tokens(self, name: str, parameters: TokenParameters) -> TokenProducer:
        client = SidecarClient(
            parameters.sidecar.socket or self.options.tokenizer_socket,
            seconds(parameters.sidecar.timeout, "sidecar.timeout"),
            self.options.max_body_bytes + ROOM_BYTES,
        )
        self.sidecars.append(client)
        return TokenProducer(
            name, client, lambda model: self.pool.resolve_model(model).main, parameters.model_name
        )


class EventFollower:
    """Keeps one index subscribed to the pool's endpoints. A listener of the pool."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], prefix: PrecisePrefix, pool: Pool
    ) -> None:
        self.subscriptions = Subscriptions(context, prefix.index)
        self._prefix = prefix
        self._pool = pool

    def added(self, endpoint: Endpoint) -> None:
        self._sync()

    def removed(self, endpoint: Endpoint) -> None:
        self._sync()
        self._prefix.index.drop_endpoint(endpoint.address)

    def changed(self, endpoint: Endpoint) -> None:
        self._sync()

    def restarted(self, endpoint: Endpoint) -> None:
        self._prefix.index.restarted(endpoint.address)

    def _sync(self) -> None:
        self.subscriptions.sync(
            source for e in self._pool.snapshot() for source in self._prefix.sources(e)
        )


async def serve(options: Options, ready: Callable[[], None], stop: asyncio.Event) -> None:
    """Run a router until `stop` is set and it has drained.

    Raises DiscoveryError or StartError where it cannot start.
    """
    for warning in options.config.warnings:
        log.warning("config.warning", text=warning)
    parts = Parts(options)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    followers = [EventFollower(context, prefix, parts.pool) for prefix in parts.prefixes]
    try:
        await parts.discovery.load()
        for follower in followers:
            parts.pool.listen(follower)
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(parts.discovery.run()),
                group.create_task(parts.scraper.run()),
                group.create_task(_tick(parts)),
                *(group.create_task(sidecar.run()) for sidecar in parts.sidecars),
            ]
            await _serve_ports(parts, followers, ready, stop)
            for task in background:
                task.cancel()
    finally:
        for follower in followers:
            follower.subscriptions.close()
        context.term()


async def _tick(parts: Parts) -> None:
    while True:
        for prefix in parts.prefixes:
            prefix.tick(parts.pool.snapshot())
        await asyncio.sleep(TICK_S)


async def _serve_ports(
    parts: Parts,
    followers: list[EventFollower],
    ready: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    """Open the three ports, wait for the end, drain and close them."""
    options = parts.options
    state = State(parts.pool, parts.processor.stats, parts.sidecars, parts.prefixes, parts.loads)
    state.config_warnings = options.config.warnings
    parts.metrics.watch(state.samples)

    def is_ready() -> bool:
        return parts.discovery.synced and state.serving

    grpc_server = _ext_proc_server(parts)
    health_server = _health_server(options, is_ready)
    match = Matcher(parts.producers, parts.prefixes[0]).answer if parts.prefixes else None
    pages = Pages(
        metrics=parts.metrics,
        decisions=parts.decisions,
        ready=is_ready,
        degraded=state.degraded,
        state=state.describe,
        match=match,
        max_body_bytes=options.max_body_bytes,
    )
    runner = web.AppRunner(application(pages), access_log=None)
    await runner.setup()
    try:
        await web.TCPSite(runner, options.bind_address, options.http_port).start()
        await grpc_server.start()
        await health_server.start()
        state.serving = True
        ready()
        await stop.wait()
        await _drain(parts, state, grpc_server)
    finally:
        await health_server.stop(None)
        await grpc_server.stop(None)
        await runner.cleanup()


async def _drain(parts: Parts, state: State, server: grpc.aio.Server) -> None:
    """Say not ready, keep picking while Envoy looks elsewhere, then let open streams end."""
    state.serving = False
    log.info("router.draining", streams=parts.processor.stats.open)
    await asyncio.sleep(parts.options.drain_s)
    parts.director.draining = True
    await server.stop(STOP_GRACE_S)


def _ext_proc_server(parts: Parts) -> grpc.aio.Server:
    options = parts.options
    largest = options.max_body_bytes + ROOM_BYTES
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", largest),
            ("grpc.max_send_message_length", largest),
            # A second router on the same port is a mistake, not a way to share the load.
            ("grpc.so_reuseport", 0),
        ]
    )
    add_ExternalProcessorServicer_to_server(parts.processor, server)  # type: ignore[arg-type]
    address = _address(options.bind_address, options.grpc_port)
    if options.secure:
        credentials = grpc.ssl_server_credentials([self_signed()])
        _bind(lambda: server.add_secure_port(address, credentials), address)
    else:
        _bind(lambda: server.add_insecure_port(address), address)
    return server


def _health_server(options: Options, ready: Callable[[], bool]) -> grpc.aio.Server:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    add_HealthServicer_to_server(Health(ready), server)
    address = _address(options.bind_address, options.health_port)
    _bind(lambda: server.add_insecure_port(address), address)
    return server


def _bind(bind: Callable[[], int], address: str) -> None:
    try:
        bind()
    except RuntimeError as error:
        raise StartError(f"cannot listen on {address}: is the port in use?") from error


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
