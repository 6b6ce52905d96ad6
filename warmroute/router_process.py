"""Runs a router: the order in which its parts start and stop. IO."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from importlib.metadata import version
from pathlib import Path

import grpc
import structlog
import zmq
from aiohttp import web

from router.admission.saturation import Detector
from router.extproc import health
from router.extproc.pb.ext_proc_pb2_grpc import add_ExternalProcessorServicer_to_server
from router.pool.pool_log import PoolLog
from router.telemetry import encoder_samples, pool_samples
from router.telemetry.doctor.doctor import Doctor
from router.telemetry.http import Pages, application
from router.telemetry.in_flight import InFlightSeries
from router.telemetry.page.overview import Overviews
from router.telemetry.samples import Sample, Values
from router.telemetry.state import State
from tokenizer_sidecar import unix_socket
from warmroute.builder import ROOM_BYTES
from warmroute.certificates import credentials
from warmroute.crew import Crew
from warmroute.eds import EdsFile
from warmroute.errors import StartError
from warmroute.parts import Parts
from warmroute.reload import ConfigWatch, tell
from warmroute.serve import Options

log = structlog.get_logger()

STOP_GRACE_S = 5.0
"""How long streams that are still open after the drain window may take to end."""

SOCKET_MODE = 0o660
"""Permissions of the ext_proc socket: Envoy runs as the same user or in its group."""

LOOK_S = 1.0
"""Between two looks of the doctor at what takes time to see."""

TICK_S = 0.25
"""Between two looks at what changes with time: guesses, models, lost event streams."""


async def serve(options: Options, ready: Callable[[], None], stop: asyncio.Event) -> None:
    """Run a router until `stop` is set and it has drained.

    Raises DiscoveryError or StartError where it cannot start.
    """
    tell(options.config)
    parts = Parts(options)
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    try:
        parts.pool.listen(PoolLog())
        await parts.discovery.load()
        eds = EdsFile(options.eds_file, parts.pool) if options.eds_file is not None else None
        async with asyncio.TaskGroup() as group:
            crew = Crew(parts, context, group)
            try:
                await _run(parts, crew, eds, group, ready, stop)
            finally:
                await crew.close()
    finally:
        context.destroy(linger=0)
        if parts.tracing is not None:
            await parts.tracing.close()


async def _run(
    parts: Parts,
    crew: Crew,
    eds: EdsFile | None,
    group: asyncio.TaskGroup,
    ready: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    options = parts.options
    await crew.adopt(options.config)
    watch = ConfigWatch(options.config_file, options.config, crew.adopt)
    doctor = _doctor(parts, crew, watch)
    background = [
        group.create_task(parts.discovery.run()),
        group.create_task(watch.run()),
        group.create_task(_tick(parts, crew, eds)),
        group.create_task(_look(doctor)),
    ]
    await _serve_ports(parts, crew, watch, doctor, ready, stop)
    if options.grpc_socket is not None:
        options.grpc_socket.unlink(missing_ok=True)
    for task in background:
        task.cancel()
    await crew.save()


async def _tick(parts: Parts, crew: Crew, eds: EdsFile | None) -> None:
    while True:
        if eds is not None:
            eds.sync()
        crew.tick()
        parts.tally.tick(time.time(), parts.pool.snapshot())
        await asyncio.sleep(TICK_S)


def _doctor(parts: Parts, crew: Crew, watch: ConfigWatch) -> Doctor:
    doctor = Doctor(
        parts.pool,
        parts.decisions,
        prefixes=crew.prefixes,
        tokenizers=crew.tokenizers,
        loads=crew.loads,
        config=watch,
        comparison=parts.comparison,
        clock=time.time,
    )
    parts.pool.listen(doctor)
    return doctor


async def _look(doctor: Doctor) -> None:
    while True:
        doctor.tick()
        await asyncio.sleep(LOOK_S)


async def _serve_ports(
    parts: Parts,
    crew: Crew,
    watch: ConfigWatch,
    doctor: Doctor,
    ready: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    """Open the three ports, wait for the end, drain and close them."""
    options, state = parts.options, _state(parts, crew, watch)
    _publish(parts, crew, state, doctor)

    def is_ready() -> bool:
        return parts.discovery.synced and state.serving

    grpc_server = _ext_proc_server(parts)
    health.add_to_server(health.Health(is_ready), grpc_server)
    health_server = _health_server(options, is_ready)
    pages = _pages(parts, crew, state, doctor, is_ready)
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


def _state(parts: Parts, crew: Crew, watch: ConfigWatch) -> State:
    return State(
        parts.pool,
        parts.director.outliers,
        parts.discovery,
        parts.processor.stats,
        crew.tokenizers,
        crew.prefixes,
        crew.loads,
        watch,
        parts.director.prefill_outliers,
        parts.options.pool_name,
    )


def _publish(parts: Parts, crew: Crew, state: State, doctor: Doctor) -> None:
    """Show what is counted elsewhere on the metrics page."""
    loads = InFlightSeries(parts.pool.snapshot, crew.loads, parts.metrics.account, time.monotonic)
    for source in (
        state.samples,
        loads.samples,
        lambda: encoder_samples.samples(crew.encoders, parts.name_of),
        doctor.samples,
        lambda: _saturation(parts, crew),
        _tasks,
        crew.polling.samples,
    ):
        parts.metrics.watch(source)


def _pages(
    parts: Parts, crew: Crew, state: State, doctor: Doctor, is_ready: Callable[[], bool]
) -> Pages:
    return Pages(
        metrics=parts.metrics,
        decisions=parts.decisions,
        ready=is_ready,
        degraded=state.degraded,
        state=state.describe,
        overviews=Overviews(
            pool=parts.pool,
            outliers=(parts.director.outliers, parts.director.prefill_outliers),
            prefixes=crew.prefixes,
            loads=crew.loads,
            tally=parts.tally,
            decisions=parts.decisions,
            ready=is_ready,
            degraded=state.degraded,
        ),
        match=lambda: None if crew.match is None else crew.match.answer,
        max_body_bytes=parts.options.max_body_bytes,
        doctor=doctor.describe,
        open_debug=parts.options.open_debug,
    )


def _tasks() -> Iterator[Sample]:
    """What the event loop has to do: it grows where somebody forgets to end something."""
    release: Values = {("", version("warmroute")): 1.0}
    yield Sample("llm_d_epp_info", "What runs.", release, ("commit", "build_ref"))
    yield Sample("warmroute_tasks", "asyncio tasks.", {(): len(asyncio.all_tasks())})


def _saturation(parts: Parts, crew: Crew) -> Iterator[Sample]:
    detector: Detector = parts.config.admission.detector.value
    endpoints, pool = parts.pool.candidates(), parts.options.pool_name
    return pool_samples.saturation(detector, endpoints, crew.loads, pool, time.time())


async def _drain(parts: Parts, state: State, server: grpc.aio.Server) -> None:
    """Say not ready, keep picking while Envoy looks elsewhere, then let go of what is on its way.

    What an answer still needs us for gets a little longer.
    """
    state.serving = False
    log.info("router.draining", streams=parts.processor.stats.open)
    await asyncio.sleep(parts.options.drain_s)
    parts.director.draining = True
    parts.processor.finish()
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
    if options.grpc_socket is not None:
        _bind_socket(server, options.grpc_socket)
    return server


def _health_server(options: Options, ready: Callable[[], bool]) -> grpc.aio.Server:
    server = grpc.aio.server(options=[("grpc.so_reuseport", 0)])
    health.add_to_server(health.Health(ready), server)
    address = _address(options.bind_address, options.health_port)
    _bind(lambda: server.add_insecure_port(address), address)
    return server


def _bind(bind: Callable[[], int], address: str) -> None:
    try:
        bind()
    except RuntimeError as error:
        raise StartError(f"cannot listen on {address}: is the port in use?") from error


def _bind_socket(server: grpc.aio.Server, path: Path) -> None:
    unix_socket.claim(path)
    address = f"unix:{path.absolute()}"
    with unix_socket.created_with(SOCKET_MODE):
        _bind(lambda: server.add_insecure_port(address), address)


def _address(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
