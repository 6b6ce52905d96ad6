"""A simulated engine, served: assembles the parts, binds the ports, runs until told to stop. IO."""

from __future__ import annotations

import asyncio
import logging
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager

import msgspec
from aiohttp import web

from simulator import admin, generate, handshake, render
from simulator.blocks import PrefixCache
from simulator.config import EngineConfig
from simulator.engine import Engine
from simulator.errors import ApiError
from simulator.events import Form, Publisher
from simulator.hashing import Hasher
from simulator.language import Language
from simulator.metrics import Metrics
from simulator.prepare import Preparer
from simulator.rank import Rank
from simulator.service import SERVICE, Service, json_response, service_of

__all__ = ["Bound", "EngineConfig", "running", "serve"]

MAX_BODY_BYTES = 128 * 1024 * 1024
"""vLLM has no limit of its own; this is twice what the router lets through."""

_SHUTDOWN_S = 1.0
"""How long answers in progress get when the engine stops."""

_SERVER_HEADERS = {"Server": "uvicorn", "Vary": "Origin"}

log = logging.getLogger(__name__)

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


class Bound(msgspec.Struct, frozen=True):
    """The ports a running engine has: of HTTP, and of each rank's events and replays."""

    http: int
    events: tuple[int, ...]
    replays: tuple[int, ...]


async def serve(config: EngineConfig, ready: Callable[[], None], stop: asyncio.Event) -> None:
    """Run an engine until `stop` is set; `ready` is called once it takes requests.

    Raises OSError, in one line, when a port is taken; ModelError when the model cannot be read.
    """
    async with running(config):
        ready()
        await stop.wait()


@asynccontextmanager
async def running(config: EngineConfig) -> AsyncIterator[Bound]:
    """An engine that takes requests for as long as the context is open. Raises as `serve` does."""
    language = await asyncio.to_thread(Language.load, config.model_dir)
    with ExitStack() as cleanup:
        listener = cleanup.enter_context(_listen(config.host, config.port))
        port: int = listener.getsockname()[1]
        topic = config.topic or f"kv@{config.host}:{port}@{config.model}"
        publishers = _publishers(config, topic, cleanup)
        service = _assemble(config, language, publishers, topic, port)
        runner = web.AppRunner(
            _application(service),
            access_log=None,
            handler_cancellation=True,
            # vLLM reads bodies as they come, whatever coding they claim.
            auto_decompress=False,
            shutdown_timeout=_SHUTDOWN_S,
        )
        await runner.setup()
        async with asyncio.TaskGroup() as tasks:
            background = [
                *(tasks.create_task(rank.run()) for rank in service.ranks),
                *(tasks.create_task(publisher.answer_replays()) for publisher in publishers),
            ]
            try:
                await web.SockSite(runner, listener).start()
                yield _bound(port, publishers)
            finally:
                await runner.cleanup()
                for task in background:
                    task.cancel()


def _listen(host: str, port: int) -> socket.socket:
    """The HTTP socket. Raises OSError with a line that says where."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=1024)
    except OSError as error:
        reason = error.strerror or str(error)
        raise OSError(error.errno, f"cannot listen on {host}:{port}: {reason}") from error


def _publishers(config: EngineConfig, topic: str, cleanup: ExitStack) -> list[Publisher]:
    if config.kv_events_port is None:
        return []
    form = Form(
        topic=topic,
        layout=config.event_layout,
        hashes=config.hash_form,
        replay_topic_frame=config.replay_topic_frame,
        delay_s=config.event_delay_s,
    )
    publishers = []
    for rank in range(config.ranks):
        publisher = Publisher(
            config.host,
            _offset(config.kv_events_port, rank),
            None if config.replay_port is None else _offset(config.replay_port, rank),
            form,
            rank,
        )
        cleanup.callback(publisher.close)
        publishers.append(publisher)
    return publishers


def _offset(port: int, rank: int) -> int:
    """Each rank's port is the first one's plus its number; any free port for all if that is 0."""
    return port + rank if port else 0


def _assemble(
    config: EngineConfig,
    language: Language,
    publishers: list[Publisher],
    topic: str,
    port: int,
) -> Service:
    hasher = Hasher(config.block_size, config.hash_seed)
    engines = [
        Engine(
            PrefixCache(config.num_blocks, config.block_size),
            hasher,
            config.timing,
            max_model_len=config.max_model_len,
            concurrency=config.concurrency,
            max_loras=config.max_loras,
            max_batched_tokens=config.max_batched_tokens,
        )
        for _ in range(config.ranks)
    ]
    metrics = Metrics(config, engines, time.time())
    ranks = [
        Rank(number, engine, metrics, publishers[number] if publishers else None)
        for number, engine in enumerate(engines)
    ]
    preparer = Preparer(
        language.renderer,
        hasher,
        config.model,
        context_tokens=config.context_tokens,
        token_limit=engines[0].token_limit,
    )
    return Service(config, language, preparer, ranks, metrics, topic, port)


def _application(service: Service) -> web.Application:
    application = web.Application(client_max_size=MAX_BODY_BYTES, middlewares=[_refusals])
    application[SERVICE] = service
    application.add_routes([*generate.ROUTES, *render.ROUTES, *admin.ROUTES, *handshake.ROUTES])
    application.on_response_prepare.append(_dress)
    return application


def _bound(port: int, publishers: list[Publisher]) -> Bound:
    replays = (publisher.replay_port for publisher in publishers)
    return Bound(
        http=port,
        events=tuple(publisher.port for publisher in publishers),
        replays=tuple(replay for replay in replays if replay is not None),
    )


async def _dress(request: web.Request, response: web.StreamResponse) -> None:
    response.headers.update(_SERVER_HEADERS)


@web.middleware
async def _refusals(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Errors become vLLM's bodies. What nothing below expects is counted, logged, and a 500."""
    try:
        return await handler(request)
    except ApiError as error:
        return json_response(error.body(), error.status)
    except web.HTTPException as error:
        response = json_response({"detail": error.reason}, error.status)
        if isinstance(error, web.HTTPMethodNotAllowed):
            response.headers["Allow"] = ", ".join(sorted(error.allowed_methods))
        return response
    except ConnectionError:
        raise
    except Exception:
        service_of(request).metrics.count_failure()
        log.exception("request.failed", extra={"path": request.path})
        if request.writer.output_size > 0:
            raise  # a stream has begun: cutting it is all that is left
        failure = ApiError(500, "InternalServerError", "Internal server error")
        return json_response(failure.body(), failure.status)
