"""The tokenizer sidecar as a process: one Unix socket, its models, an orderly end. IO."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import cast

import grpc
import msgspec
import structlog

from tokenizer_sidecar import renderers
from tokenizer_sidecar.encode import CACHE_BYTES
from tokenizer_sidecar.errors import ModelError
from tokenizer_sidecar.lanes import Lane
from tokenizer_sidecar.llmd_service import LlmdService
from tokenizer_sidecar.metrics import Sources
from tokenizer_sidecar.metrics_http import serving_metrics
from tokenizer_sidecar.models import Backoff, Models
from tokenizer_sidecar.pb.tokenization_pb2_grpc import (
    TokenizationServiceServicer,
    add_TokenizationServiceServicer_to_server,
)
from tokenizer_sidecar.pb.tokenizer_pb2_grpc import (
    TokenizerServicer,
    add_TokenizerServicer_to_server,
)
from tokenizer_sidecar.service import Service
from tokenizer_sidecar.stats import Stats
from tokenizer_sidecar.unix_socket import SocketUnusable, claim, created_with

log = structlog.get_logger(__name__)

MAX_BODY_BYTES = 64 * 1024 * 1024
"""The largest body that the router takes by default."""

ROOM_BYTES = 1024 * 1024
"""What a message may carry besides a body."""


class SidecarConfig(msgspec.Struct, frozen=True):
    """
    Attributes:
        socket: Path of the Unix socket.
        models: Base model name to model directory.
        socket_mode: Permissions of the socket.
        trust_request_template: A chat template in a request is used, as by engines told to.
        max_body_bytes: Largest body; that of the router.
        max_in_flight: Requests of one stream that are worked on; reading pauses beyond it.
        max_queued: Requests of all streams that wait for a thread; further ones are refused.
        inline_bytes: Longest body that is answered without a thread. Its worst case, a chat of a
            hundred empty messages, holds up all others for about 2 ms.
        cache_bytes: Most memory per model for the ids of texts seen before.
        workers: Threads for short bodies, and as many for long ones.
        metrics_port: Port of /metrics, /healthz and /readyz; None for no HTTP at all.
        metrics_host: Address of that port.
        backoff: Waits between attempts to load a model.
        drain_s: How long requests in flight may take to finish at the end.
    """

    socket: Path
    models: Mapping[str, Path]
    socket_mode: int = 0o660
    trust_request_template: bool = False
    max_body_bytes: int = MAX_BODY_BYTES
    max_in_flight: int = 256
    max_queued: int = 1024
    inline_bytes: int = 4096
    cache_bytes: int = CACHE_BYTES
    workers: int = max(2, min(8, os.cpu_count() or 1))
    metrics_port: int | None = None
    metrics_host: str = "127.0.0.1"
    backoff: Backoff = Backoff()
    drain_s: float = 10.0


async def serve(config: SidecarConfig, ready: Callable[[], None], stop: asyncio.Event) -> None:
    """Serve until `stop` is set, then finish what is in flight and remove the socket.

    `ready` is called once the socket listens; models load meanwhile. Raises ModelError where a
    model's directory is missing, OSError where the socket or the metrics port cannot be had.
    """
    for name, directory in config.models.items():
        if not directory.is_dir():
            raise ModelError(f"model {name!r}: {directory} is not a directory")
    stats = Stats()
    models = _models(config, stats)
    service = _service(config, models, stats)
    lane = Lane("llmd", config.workers, config.max_queued)
    llmd = LlmdService(models, lane, stats)
    async with AsyncExitStack() as stack:
        stack.callback(service.close)
        stack.callback(lane.close)
        if config.metrics_port is not None:
            sources = Sources(
                stats, lambda: service.queued + lane.waiting, models.cache_stats, models.missing
            )
            await stack.enter_async_context(
                serving_metrics(sources, config.metrics_host, config.metrics_port)
            )
        await stack.enter_async_context(_listening(config, service, llmd))
        await stack.enter_async_context(_loading(models))
        ready()
        log.info("sidecar.ready", socket=str(config.socket), models=len(config.models))
        await stop.wait()
    log.info("sidecar.stopped", answered=stats.requests.total())


def _models(config: SidecarConfig, stats: Stats) -> Models:
    load = partial(
        renderers.load,
        cache_bytes=config.cache_bytes,
        trust_request_template=config.trust_request_template,
    )
    return Models(config.models, stats, config.backoff, load)


def _service(config: SidecarConfig, models: Models, stats: Stats) -> Service:
    return Service(
        models,
        stats,
        workers=config.workers,
        max_in_flight=config.max_in_flight,
        max_queued=config.max_queued,
        inline_bytes=config.inline_bytes,
        max_ids_bytes=config.max_body_bytes,
    )


@asynccontextmanager
async def _listening(
    config: SidecarConfig, service: Service, llmd: LlmdService
) -> AsyncIterator[None]:
    claim(config.socket)
    largest = config.max_body_bytes + ROOM_BYTES
    server = grpc.aio.server(
        options=[
            ("grpc.max_receive_message_length", largest),
            ("grpc.max_send_message_length", largest),
        ]
    )
    # The generated base class is typed for iterators; the coroutine form of a stream, which grpc
    # supports as well, is the one that is cancelled cleanly.
    add_TokenizerServicer_to_server(cast(TokenizerServicer, service), server)
    add_TokenizationServiceServicer_to_server(cast(TokenizationServiceServicer, llmd), server)
    try:
        with created_with(config.socket_mode):
            server.add_insecure_port(f"unix:{config.socket.absolute()}")
        await server.start()
    except (RuntimeError, OSError) as error:
        raise SocketUnusable(f"{config.socket}: cannot listen: {error}") from error
    try:
        yield
    finally:
        service.drain()
        await server.stop(config.drain_s)
        config.socket.unlink(missing_ok=True)


@asynccontextmanager
async def _loading(models: Models) -> AsyncIterator[None]:
    """Load models while inside."""
    executor = ThreadPoolExecutor(1, thread_name_prefix="load")
    async with asyncio.TaskGroup() as group:
        loading = group.create_task(models.keep_loading(executor))
        try:
            yield
        finally:
            loading.cancel()
            executor.shutdown(wait=False, cancel_futures=True)
