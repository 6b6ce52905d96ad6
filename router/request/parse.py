"""From headers and bytes to a Request: which API a path speaks, and what its parser reads.

Legal but unknown paths, media types and content codings are no error: they go by load. So do all
requests whose body the data plane does not show.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from urllib.parse import unquote

import msgspec

from router.errors import BadRequest
from router.request import anthropic, openai, responses, sglang, vllm
from router.request.bodies import Read
from router.request.coding import codings, readable, unpack
from router.request.reserved import refuse_hidden, refuse_reserved
from router.request.types import Kind, Request

Parser = Callable[[bytes], Read]
"""Reads a body that is JSON in UTF-8. Raises BadRequest."""


class Api(msgspec.Struct, frozen=True):
    """An API of a model server.

    Attributes:
        name: For people and metrics.
        parser: Reads its bodies.
    """

    name: str
    parser: Parser


APIS: Mapping[str, Api] = {
    "completions": Api("completion", openai.completion),
    "chat/completions": Api("chat", openai.chat),
    "completions/render": Api("render", openai.without_prompt),
    "chat/completions/render": Api("render", openai.without_prompt),
    "embeddings": Api("embeddings", openai.without_prompt),
    "images/generations": Api("images", openai.without_prompt),
    "conversations": Api("conversations", openai.without_prompt),
    "invocations": Api("invocation", openai.invocation),
    "responses": Api("responses", responses.responses),
    "v1/messages": Api("messages", anthropic.messages),
    "v1/messages/count_tokens": Api("count_tokens", openai.without_prompt),
    "inference/v1/generate": Api("generate", vllm.generate),
    "generate": Api("generate", sglang.generate),
}
"""Last segments of a path -> API; the longest match wins. What stands before them (``/v1``,
``/openai/v1``) varies between deployments."""


class Apis(msgspec.Struct, frozen=True):
    """The APIs whose requests are read.

    Attributes:
        known: Last segments of a path -> API.
        others_pass: A request for another path goes by load; otherwise it is refused.
    """

    known: Mapping[str, Api]
    others_pass: bool


EVERY_API = Apis(known=APIS, others_pass=True)

OTHER = "other"
"""What is called an API that is not in the table."""

_DEPTH = max(path.count("/") for path in APIS) + 1

_JSON_TYPES = frozenset({"", "application/json"})


class Limits(msgspec.Struct, frozen=True):
    """What a request may do.

    Attributes:
        max_body_bytes: Largest body, packed or not.
        allow_kv_transfer_params: Clients may send them.
    """

    max_body_bytes: int = 64 * 1024 * 1024
    allow_kv_transfer_params: bool = False


def api_of(headers: Mapping[str, str], apis: Apis = EVERY_API) -> str:
    """Name of the API a request speaks, from its headers alone."""
    api = _api(headers, path_of(headers), apis.known)
    return OTHER if api is None else api.name


def path_of(headers: Mapping[str, str]) -> str:
    """The path without its query, as an engine reads it."""
    return unquote(headers.get(":path", "").partition("?")[0])


def parse(
    headers: Mapping[str, str],
    body: bytes | None,
    request_id: str,
    limits: Limits = Limits(),  # noqa: B008 - frozen
    apis: Apis = EVERY_API,
) -> Request:
    """Read a request. `body` is None where the data plane does not show it.

    Raises BadRequest or BodyTooLarge.
    """
    path = path_of(headers)
    api = _api(headers, path, apis.known)
    if not apis.others_pass and headers.get(":method", "POST") == "POST" and api is None:
        raise BadRequest(f"no parser reads {path!r} as it was sent")
    unpacked = None if body is None else _unpacked(headers, body, limits)
    if unpacked is None or api is None:
        if unpacked is not None:
            refuse_hidden(unpacked, allow_transfer=limits.allow_kv_transfer_params)
        return Request(id=request_id, kind=Kind.OTHER, path=path, headers=headers)
    read = api.parser(unpacked)
    given = msgspec.structs.asdict(read.fields)
    refuse_reserved(given, allow_transfer=limits.allow_kv_transfer_params)
    model = read.fields.model or ""
    return Request(
        id=request_id,
        kind=read.kind,
        api=api.name,
        path=path,
        headers=headers,
        body=read.prompt,
        raw=unpacked,
        model=model,
        asked_model=model,
        token_ids=read.token_ids,
        prompt_known=read.prompt_known,
        prompts=read.prompts,
        cache_salt=read.cache_salt,
        tells_usage=read.tells_usage,
    )


def _api(headers: Mapping[str, str], path: str, known: Mapping[str, Api]) -> Api | None:
    if not _is_readable(headers):
        return None
    tail = "/".join(path.rstrip("/").rsplit("/", _DEPTH)[-_DEPTH:])
    while tail:
        if tail in known:
            return known[tail]
        tail = tail.partition("/")[2]
    return None


def _unpacked(headers: Mapping[str, str], body: bytes, limits: Limits) -> bytes | None:
    """JSON as its API's parser reads it; None for other media and unknown codings."""
    if not _is_json(headers):
        return None
    applied = codings(headers.get("content-encoding", ""))
    if not applied:
        return body
    # vLLM unpacks nothing: it reads such a body as it was sent.
    refuse_hidden(body, allow_transfer=limits.allow_kv_transfer_params)
    if not readable(applied):
        return None
    return unpack(applied[0], body, limits.max_body_bytes)


def _is_readable(headers: Mapping[str, str]) -> bool:
    """The body is said to be JSON, packed in no way or one that is known."""
    return _is_json(headers) and readable(codings(headers.get("content-encoding", "")))


def _is_json(headers: Mapping[str, str]) -> bool:
    if headers.get(":method", "POST") != "POST":
        return False
    media = headers.get("content-type", "").partition(";")[0].strip().lower()
    return media in _JSON_TYPES or media.endswith("+json")
