"""Runs a router: the order in which its parts start and stop. IO."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

import grpc
import structlog
import zmq
from aiohttp import web
from grpc_health.v1.health_pb2_grpc import add_HealthServicer_to_server

from indexer.central import Central
from indexer.poll import Polls
from indexer.subscriber import Subscriptions
from router.extproc.health import Health
from router.extproc.pb.ext_proc_pb2_grpc import add_ExternalProcessorServicer_to_server
from router.pool.endpoint import Endpoint
from router.pool.pool import Pool
from router.pool.pool_log import PoolLog
from router.producers.event_sources import polled
from router.producers.prefix import PrecisePrefix
from router.telemetry.http import Pages, application
from router.telemetry.match import Matcher
from router.telemetry.metrics import Sample
from router.telemetry.page.overview import Overviews
from router.telemetry.state import State
from warmroute.certificates import credentials
from warmroute.eds import EdsFile
from warmroute.errors import StartError
from warmroute.parts import ROOM_BYTES, Parts
from warmroute.serve import Options
from warmroute.snapshots import Snapshots

log = structlog.get_logger()

STOP_GRACE_S = 5.0
"""How long streams that are still open after the drain window may take to end."""

WATCH_S = 1.0
"""Between two looks of the doctor at what takes time to see."""

TICK_S = 0.25
"""Between two looks at what changes with time: guesses, models, lost event streams."""


class EventFollower:
    """Keeps one index subscribed to the pool's endpoints. A listener of the pool."""

    def __init__(
        self, context: zmq.Context[zmq.Socket[bytes]], prefix: PrecisePrefix, pool: Pool
    ) -> None:
        """Raises StartError where the address that engines connect to cannot be bound."""
        self.subscriptions = Subscriptions(context, prefix.index)
        self.polls = Polls(prefix.index)
        self._prefix = prefix
        self._pool = pool
        prefix.unusable = lambda: self.subscriptions.unusable
        prefix.central = prefix.open_central(pool.snapshot)
        if prefix.central is not None:
            self._bind(prefix.central)

    def added(self, endpoint: Endpoint) -> None:
        self._sync()

    def removed(self, endpoint: Endpoint) -> None:
        self._sync()
        self._prefix.index.drop_endpoint(endpoint.address)

    def changed(self, endpoint: Endpoint) -> None:
        self._sync()

    def restarted(self, endpoint: Endpoint) -> None:
        started = endpoint.metrics.process_start if endpoint.metrics else None
        self._prefix.index.restarted(endpoint.address, started)

    def died(self, endpoint: Endpoint) -> None:
        """Its events are read all the same."""

    def revived(self, endpoint: Endpoint) -> None:
        """Its events were read all the time."""

    def close(self) -> None:
        self.polls.close()
        self.subscriptions.close()

    def _bind(self, central: Central) -> None:
        address = self._prefix.zmq_endpoint
        try:
            self.subscriptions.bind(address, central)
        except (ValueError, zmq.ZMQError) as error:
            raise StartError(
                f"kvEventsConfig.zmqEndpoint: cannot bind {address}: {error}"
            ) from error

    def _sync(self) -> None:
        self.subscriptions.sync(
            source for e in self._pool.snapshot() for source in self._prefix.sources(e)
        )
        self.polls.sync(source for e in self._pool.snapshot() if (source := polled(e)))


async def serve(options: Options, ready: Callable[[], None], stop: asyncio.Event) -> None:
    """Run a router until `stop` is set and it has drained.

    Raises DiscoveryError or StartError where it cannot start.
    """
    for warning in options.config.warnings:
        log.warning("config.warning", text=warning)
    parts = Parts(options)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    followers: list[EventFollower] = []
    try:
        parts.pool.listen(PoolLog())
        await parts.discovery.load()
        followers.extend(EventFollower(context, prefix, parts.pool) for prefix in parts.prefixes)
        for follower in followers:
            parts.pool.listen(follower)
        eds = EdsFile(options.eds_file, parts.pool) if options.eds_file is not None else None
        snapshots = _snapshots(parts)
        for kept in snapshots:
            kept.restore()
        async with asyncio.TaskGroup() as group:
            background = [
                group.create_task(parts.discovery.run()),
                group.create_task(parts.scraper.run()),
                group.create_task(_tick(parts, eds)),
                group.create_task(_watch(parts)),
                *(group.create_task(tokenizer.run()) for tokenizer in parts.tokenizers),
                *(group.create_task(kept.run(options.state_interval_s)) for kept in snapshots),
                *(group.create_task(follower.polls.run()) for follower in followers),
            ]
            await _serve_ports(parts, followers, ready, stop)
            for task in background:
                task.cancel()
        for kept in snapshots:
            await kept.save()
    finally:
        for follower in followers:
            follower.close()
        context.destroy(linger=0)
        if parts.tracing is not None:
            await parts.tracing.close()


def _snapshots(parts: Parts) -> list[Snapshots]:
    folder = parts.options.state_dir
    if folder is None:
        return []
    return [Snapshots(folder, prefix, parts.pool) for prefix in parts.prefixes]


async def _tick(parts: Parts, eds: EdsFile | None) -> None:
    while True:
        if eds is not None:
            eds.sync()
        for prefix in parts.prefixes:
            prefix.tick(parts.pool.snapshot())
        parts.tally.tick(time.time(), parts.pool.snapshot())
        await asyncio.sleep(TICK_S)


async def _watch(parts: Parts) -> None:
    while True:
        parts.doctor.tick()
        await asyncio.sleep(WATCH_S)


async def _serve_ports(
    parts: Parts,
    followers: list[EventFollower],
    ready: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    """Open the three ports, wait for the end, drain and close them."""
    options = parts.options
    state = State(
        parts.pool,
        parts.director.outliers,
        parts.discovery,
        parts.processor.stats,
        parts.tokenizers,
        parts.prefixes,
        parts.loads,
    )
    state.config_warnings = options.config.warnings
    parts.metrics.watch(state.samples)
    parts.metrics.watch(parts.doctor.samples)
    parts.metrics.watch(_tasks)

    def is_ready() -> bool:
        return parts.discovery.synced and state.serving

    grpc_server = _ext_proc_server(parts)
    add_HealthServicer_to_server(Health(is_ready), grpc_server)
    health_server = _health_server(options, is_ready)
    match = None
    if parts.prefixes:
        match = Matcher(parts.producers, parts.prefixes[0], parts.pool.snapshot).answer
    pages = Pages(
        metrics=parts.metrics,
        decisions=parts.decisions,
        ready=is_ready,
        degraded=state.degraded,
        state=state.describe,
        overviews=Overviews(
            pool=parts.pool,
            outliers=parts.director.outliers,
            prefixes=parts.prefixes,
            loads=parts.loads,
            tally=parts.tally,
            decisions=parts.decisions,
            ready=is_ready,
            degraded=state.degraded,
            warnings=lambda: state.config_warnings,
        ),
        match=match,
        max_body_bytes=options.max_body_bytes,
        doctor=parts.doctor.describe,
        open_debug=options.open_debug,
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


def _tasks() -> Iterator[Sample]:
    """What the event loop has to do: it grows where somebody forgets to end something."""
    yield Sample("warmroute_tasks", "asyncio tasks.", {(): len(asyncio.all_tasks())})


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
        secured = credentials(options.cert_path, reload=options.cert_reload)
        _bind(lambda: server.add_secure_port(address, secured), address)
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
