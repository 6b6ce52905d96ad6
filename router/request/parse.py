"""From headers and bytes to a Request: which API a path speaks, and whether its body is read.

Legal but unknown paths, media types and content codings are no error: they go by load.
"""

from __future__ import annotations

from collections.abc import Mapping

from router.request import openai
from router.request.types import Kind, Request

_KINDS: Mapping[str, Kind] = {
    "chat/completions": Kind.CHAT,
    "completions": Kind.COMPLETION,
}
"""Last segments of a path -> API; prefixes such as ``/openai/v1`` vary between deployments."""

_JSON_TYPES = frozenset({"", "application/json"})


def kind_of(headers: Mapping[str, str]) -> Kind:
    """Which API a request speaks, from its headers alone."""
    if headers.get(":method", "POST") != "POST":
        return Kind.OTHER
    if headers.get("content-encoding", "identity").strip().lower() != "identity":
        return Kind.OTHER
    if headers.get("content-type", "").partition(";")[0].strip().lower() not in _JSON_TYPES:
        return Kind.OTHER
    segments = path_of(headers).rstrip("/").split("/")
    chat = _KINDS.get("/".join(segments[-2:]))
    return chat or _KINDS.get(segments[-1], Kind.OTHER)


def path_of(headers: Mapping[str, str]) -> str:
    """The path without its query."""
    return headers.get(":path", "").partition("?")[0]


def parse(
    headers: Mapping[str, str],
    body: bytes | None,
    request_id: str,
    *,
    allow_kv_transfer_params: bool = False,
) -> Request:
    """Read a request. `body` is None where the data plane does not show it. Raises BadRequest."""
    kind, path = kind_of(headers), path_of(headers)
    if body is None or kind is Kind.OTHER:
        return Request(id=request_id, kind=Kind.OTHER, path=path, headers=headers, body=body or b"")
    if kind is Kind.CHAT:
        chat = openai.chat(body)
        openai.refuse_reserved(chat, allow_kv_transfer_params=allow_kv_transfer_params)
        read: openai.Chat | openai.Completion = chat
        token_ids, known = None, True
    else:
        completion = openai.completion(body)
        openai.refuse_reserved(completion, allow_kv_transfer_params=allow_kv_transfer_params)
        read = completion
        token_ids = openai.first_prompt_ids(completion.prompt)
        known = not openai.is_empty(completion.prompt)
    return Request(
        id=request_id,
        kind=kind,
        path=path,
        headers=headers,
        body=body,
        model=read.model or "",
        token_ids=token_ids,
        prompt_known=known,
        cache_salt=read.cache_salt,
        tells_usage=read.tells_usage,
    )
