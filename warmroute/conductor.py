"""`warmroute conductor`: the index and the `kv-conductor` API, without a router. IO."""

from __future__ import annotations

import argparse
import asyncio
from collections.abc import Callable
from pathlib import Path

import msgspec
import zmq
from aiohttp import web

from indexer.conductor.conductor import Conductor
from indexer.conductor.http import application
from indexer.conductor.service import ConductorService
from indexer.prefix_index import PrefixIndex
from indexer.sockets import Context
from warmroute import flags, log
from warmroute.errors import StartError
from warmroute.running import run as run_service
from warmroute.snapshots import ConductorSnapshots, check_folder

DEFAULT_PORT = 13333


class Options(msgspec.Struct, frozen=True):
    """What the flags say."""

    host: str
    port: int
    state_dir: Path | None
    state_interval_s: float
    index_bytes: int | None
    index_bytes_per_endpoint: int | None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Flags of the command."""
    add = parser.add_argument
    add("--host", default="127.0.0.1", help="address of the API")
    add("--port", type=flags.port, default=DEFAULT_PORT, help="port of the API")
    add("--log-format", choices=("json", "text"), default="text")
    add("--state-dir", type=Path, metavar="DIR", help="keep registrations and indexes here")
    add("--state-interval", type=flags.duration, default=20.0, help="between two savings")
    flags.add_index_bytes(parser)


def run(arguments: argparse.Namespace) -> int:
    """Serve until a signal."""
    log.configure(arguments.log_format)
    options = Options(
        host=arguments.host,
        port=arguments.port,
        state_dir=arguments.state_dir,
        state_interval_s=arguments.state_interval,
        index_bytes=arguments.index_bytes or None,
        index_bytes_per_endpoint=arguments.index_bytes_per_endpoint or None,
    )
    return run_service(lambda ready, stop: serve(options, ready, stop))


async def serve(options: Options, ready: Callable[[], None], stop: asyncio.Event) -> None:
    """Run a conductor until `stop` is set. Raises StartError where it cannot start."""
    if options.state_dir is not None:
        check_folder(options.state_dir)

    def new_index(block_size: int) -> PrefixIndex:
        return PrefixIndex(
            block_size,
            pools=True,
            index_bytes=options.index_bytes,
            index_bytes_per_endpoint=options.index_bytes_per_endpoint,
        )

    context: Context = zmq.Context()
    conductor = Conductor(new_index)
    service = ConductorService(conductor, context, options.state_dir)
    kept = ConductorSnapshots(options.state_dir, conductor) if options.state_dir else None
    try:
        service.restore()
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(service.run())]
            if kept is not None:
                kept.restore()
                beside.append(group.create_task(kept.run(options.state_interval_s)))
            await serve_api(service, options.host, options.port, ready, stop)
            for task in beside:
                task.cancel()
        if kept is not None:
            await kept.save()
    finally:
        service.close()
        context.destroy(linger=0)


async def serve_api(
    service: ConductorService,
    host: str,
    port: int,
    ready: Callable[[], None],
    stop: asyncio.Event,
) -> None:
    """Open the API's port until `stop` is set. Raises StartError."""
    runner = web.AppRunner(application(service), access_log=None)
    await runner.setup()
    try:
        try:
            await web.TCPSite(runner, host, port).start()
        except OSError as error:
            raise StartError(f"cannot listen on {host}:{port}: {error.strerror}") from error
        ready()
        await stop.wait()
    finally:
        await runner.cleanup()
