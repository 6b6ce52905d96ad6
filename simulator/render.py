"""The routes that turn text into tokens and back, without generating. IO."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from aiohttp import web

from simulator.errors import ApiError
from simulator.openai import Ask, Kind, parse_ask
from simulator.responses import Head, rendered
from simulator.service import head_of, json_body, json_response, off_loop_if_large, service_of


async def render_completion(request: web.Request) -> web.Response:
    """A list, one entry per prompt."""
    head, body, prompts = await _prompts(request, "completion")
    entries = [
        rendered(head, body, f"{head.answer_id}-{index}", token_ids)
        for index, token_ids in enumerate(prompts)
    ]
    return json_response(entries)


async def render_chat(request: web.Request) -> web.Response:
    head, body, (token_ids,) = await _prompts(request, "chat")
    return json_response(rendered(head, body, head.answer_id, token_ids))


async def tokenize(request: web.Request) -> web.Response:
    """Ids of a `prompt`, or of `messages` as the template renders them."""
    service = service_of(request)
    body, size_bytes = await json_body(request)
    service.served.find(_text(body, "model", default=""))
    if "messages" in body:
        ask = parse_ask(body, "chat")
        work = partial(service.preparer.token_ids, "chat", body, ask)
    else:
        work = partial(_encode, request, body)
    (token_ids,) = await off_loop_if_large(size_bytes, work)
    strings = service.language.token_strings if body.get("return_token_strs") is True else None
    answer = {
        "count": len(token_ids),
        "max_model_len": service.config.context_tokens,
        "tokens": token_ids,
        "token_strs": strings and [strings[token_id] for token_id in token_ids],
    }
    return json_response(answer)


async def detokenize(request: web.Request) -> web.Response:
    service = service_of(request)
    body, _ = await json_body(request)
    service.served.find(_text(body, "model", default=""))
    token_ids = body.get("tokens")
    if not isinstance(token_ids, list) or not all(type(one) is int for one in token_ids):
        raise _wrong_field("tokens", "Input should be a valid list of integers")
    # The lower bound is the library's: it takes unsigned numbers only.
    if any(token_id < 0 for token_id in token_ids):
        raise ApiError.bad("Token ids must be non-negative", "tokens")
    text = service.language.encoder.decode(token_ids, skip_special_tokens=False)
    return json_response({"prompt": text})


ROUTES = (
    web.post("/v1/completions/render", render_completion),
    web.post("/v1/chat/completions/render", render_chat),
    web.post("/tokenize", tokenize),
    web.post("/detokenize", detokenize),
)


async def _prompts(
    request: web.Request, kind: Kind
) -> tuple[Head, Mapping[str, Any], list[list[int]]]:
    service = service_of(request)
    body, size_bytes = await json_body(request)
    ask: Ask = parse_ask(body, kind)
    service.served.find(ask.model)
    work = partial(service.preparer.checked_token_ids, kind, body, ask)
    return head_of(request, kind, ask), body, await off_loop_if_large(size_bytes, work)


def _encode(request: web.Request, body: Mapping[str, Any]) -> list[list[int]]:
    encoder = service_of(request).language.encoder
    special = body.get("add_special_tokens") is not False
    try:
        return [encoder.encode(_text(body, "prompt"), add_special_tokens=special)]
    except ValueError as error:
        raise ApiError.bad(str(error)) from error


def _text(body: Mapping[str, Any], field: str, default: str | None = None) -> str:
    value = body.get(field, default)
    if not isinstance(value, str):
        raise _wrong_field(field, "Input should be a valid string")
    return value


def _wrong_field(field: str, what: str) -> ApiError:
    return ApiError.invalid(f"{{'loc': 'body.{field}', 'msg': '{what}'}}", f"body.{field}")
