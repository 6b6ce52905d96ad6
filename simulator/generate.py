"""The routes that generate: /v1/completions and /v1/chat/completions, whole or streamed. IO."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Mapping
from functools import partial
from typing import Any

from aiohttp import web

from simulator import handshake, responses
from simulator.answering import Answering
from simulator.hashing import Identity
from simulator.openai import Ask, Kind, parse_ask
from simulator.responses import Head
from simulator.service import (
    Service,
    head_of,
    json_body,
    json_response,
    off_loop_if_large,
    service_of,
)
from simulator.transfer import HANDED_OVER, TransferAsk, offer

log = logging.getLogger(__name__)

_EVERYWHERE = ("0.0.0.0", "::")
"""Addresses to bind, not to call."""

_STREAM_HEADERS = {"Content-Type": "text/event-stream; charset=utf-8"}


async def completions(request: web.Request) -> web.StreamResponse:
    return await _generate(request, "completion")


async def chat_completions(request: web.Request) -> web.StreamResponse:
    return await _generate(request, "chat")


ROUTES = (
    web.post("/v1/completions", completions),
    web.post("/v1/chat/completions", chat_completions),
)


async def _generate(request: web.Request, kind: Kind) -> web.StreamResponse:
    """Prepare, queue, answer. The client's going away cancels this, which aborts the request."""
    service = service_of(request)
    body, size_bytes = await json_body(request)
    ask = parse_ask(body, kind)
    identity = Identity(service.served.find(ask.model), ask.cache_salt)
    rank = service.pick_rank(request.headers.get("X-data-parallel-rank"))
    prompts = await off_loop_if_large(
        size_bytes, partial(service.preparer.prompts, kind, body, ask, identity)
    )
    head = head_of(request, kind, ask)
    session_id = ask.session(request.headers.get("X-Session-ID"))
    fetched = await _fetched(service, ask)
    answering = Answering(head, prompts, identity, session_id, rank, service.language, fetched)
    service.in_flight += 1
    try:
        async with answering:
            return await (_stream if ask.stream else _whole)(request, head, answering)
    finally:
        service.in_flight -= 1


async def _whole(request: web.Request, head: Head, answering: Answering) -> web.StreamResponse:
    async for _ in answering.steps():
        pass
    transfer = _offer(service_of(request), head.ask, answering)
    return json_response(responses.complete(head, answering.choices, transfer))


async def _fetched(service: Service, ask: Ask) -> TransferAsk | None:
    """The prompt's cache, where another engine has computed it. Raises ApiError."""
    asked = ask.kv_transfer_params if service.config.kv_transfer else None
    if asked is None or not asked.do_remote_prefill:
        return None
    await handshake.fetch(asked)
    return asked


def _offer(service: Service, ask: Ask, answering: Answering) -> Mapping[str, Any] | None:
    """Where another engine finds the prompt's cache, if one was promised it."""
    asked = ask.kv_transfer_params if service.config.kv_transfer else None
    choice, request_id = answering.choices[0], answering.request_ids[0]
    if asked is None or not asked.do_remote_decode or choice.finish_reason not in HANDED_OVER:
        return None
    service.exports.add(request_id, time.monotonic())
    host = service.config.host
    place = "localhost" if host in _EVERYWHERE else host, service.port
    return offer(
        service.exports.engine_id,
        request_id,
        place,
        choice.blocks,
        len(choice.prompt_token_ids),
        choice.cached_tokens,
    )


async def _stream(request: web.Request, head: Head, answering: Answering) -> web.StreamResponse:
    """As vLLM, the stream opens at once and stays silent until the first token."""
    response = web.StreamResponse(headers=_STREAM_HEADERS)
    response.enable_chunked_encoding()
    await response.prepare(request)
    try:
        async for event in _events(head, answering):
            await response.write(event)
        await response.write_eof()
    except ConnectionError:
        # Usually the handler is cancelled before it can notice; either way the caller aborts.
        log.debug("stream.client_left", extra={"answer": head.answer_id})
    return response


async def _events(head: Head, answering: Answering) -> AsyncIterator[bytes]:
    opened = head.kind == "completion"
    async for added in answering.steps():
        if not opened:
            for choice in answering.choices:
                yield responses.sse(responses.opening(head, choice))
            opened = True
        yield responses.sse(responses.delta(head, added.choice, added.text, added.token_ids))
        added.choice.streamed = True
    if head.ask.includes_usage:
        yield responses.sse(responses.closing_usage(head, answering.choices))
    yield responses.DONE
