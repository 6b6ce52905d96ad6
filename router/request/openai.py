"""OpenAI bodies: completions, chats, and those of which only the model is read.

A body with a wrong type in a field the router reads is a 400; fields it does not read are the
engine's business.
"""

from __future__ import annotations

from typing import Any

import msgspec

from router.errors import BadRequest
from router.request.bodies import Fields, Read, decode
from router.request.ids import first_ids, how_many, is_empty, is_flood, may_flood
from router.request.types import Kind

_Prompt = str | list[str | int | list[int]]


class _Completion(Fields):
    prompt: _Prompt | None = None
    prompt_embeds: Any = None


class _Outline(Fields):
    prompt: msgspec.Raw = msgspec.Raw(b"")
    messages: msgspec.Raw = msgspec.Raw(b"")


class _Message(msgspec.Struct):
    role: str
    content: str | list[str | dict[str, Any]] | None = None


class _Chat(Fields, kw_only=True):
    messages: list[_Message]


_ABSENT = (b"", b"null")

_completion = msgspec.json.Decoder(_Completion)
_chat = msgspec.json.Decoder(_Chat)
_outline = msgspec.json.Decoder(_Outline)
_fields = msgspec.json.Decoder(Fields)


def completion(body: bytes) -> Read:
    """``/v1/completions``; by load with more lists of ids than are read. Raises BadRequest."""
    if may_flood(body) and is_flood((outline := decode(_outline, body)).prompt):
        return Read(fields=outline)
    read = decode(_completion, body)
    if read.prompt is None and read.prompt_embeds is None:
        raise BadRequest("`prompt` is missing or null: expected text or token ids - at `$.prompt`")
    return Read(
        fields=read,
        kind=Kind.COMPLETION,
        prompt=body,
        token_ids=first_ids(read.prompt, "$.prompt"),
        prompt_known=not is_empty(read.prompt),
        prompts=how_many(read.prompt),
        cache_salt=read.cache_salt,
        tells_usage=read.tells_usage,
    )


def chat(body: bytes) -> Read:
    """``/v1/chat/completions``. Raises BadRequest."""
    read = decode(_chat, body)
    if not read.messages:
        raise BadRequest("expected at least one message - at `$.messages`")
    return Read(
        fields=read,
        kind=Kind.CHAT,
        prompt=body,
        prompt_known=True,
        cache_salt=read.cache_salt,
        tells_usage=read.tells_usage,
    )


def invocation(body: bytes) -> Read:
    """``/invocations``, where an engine tells the API by the body. Raises BadRequest."""
    outline = decode(_outline, body)
    if bytes(outline.messages) not in _ABSENT:
        return chat(body)
    return completion(body) if bytes(outline.prompt) not in _ABSENT else Read(fields=outline)


def without_prompt(body: bytes) -> Read:
    """An API whose prompt leaves nothing in a KV cache, or none that can be known here.

    Raises BadRequest.
    """
    return Read(fields=decode(_fields, body))
