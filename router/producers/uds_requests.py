"""OpenAI bodies as requests of llm-d's tokenizer contract.

The contract has no field for some of what may change a prompt. What a chat template gets by name
(`documents`, `reasoning_effort`) travels among its other arguments. Of a message the name, the id
of the call it answers and the reasoning are left out, as llm-d does. For the rest there are no ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from router.request.types import Kind, Request
from tokenizer_sidecar.pb import tokenization_pb2 as pb

UdsRequest = pb.TokenizeRequest | pb.RenderCompletionRequest | pb.RenderChatCompletionRequest

_TEXT_PARTS = frozenset({"text", "input_text", "output_text"})


class Unspeakable(Exception):
    """The contract has no words for it."""


class _Message(msgspec.Struct):
    role: str
    content: str | list[str | dict[str, Any]] | None = None
    tool_calls: msgspec.Raw = msgspec.Raw(b"null")


class _Body(msgspec.Struct):
    add_special_tokens: bool | None = None
    truncate_prompt_tokens: int | None = None


class _Chat(_Body, kw_only=True):
    messages: list[_Message]
    tools: msgspec.Raw = msgspec.Raw(b"null")
    documents: list[dict[str, Any]] | None = None
    chat_template: str | None = None
    chat_template_kwargs: dict[str, Any] | None = None
    reasoning_effort: str | None = None
    add_generation_prompt: bool = True
    continue_final_message: bool = False


class _Completion(_Body, kw_only=True):
    prompt: str | list[str]
    prompt_embeds: Any = None
    suffix: str | None = None


_chat = msgspec.json.Decoder(_Chat)
_completion = msgspec.json.Decoder(_Completion)


def uds_request(request: Request, model: str) -> UdsRequest:
    """The call that gives the first prompt's ids.

    Raises Unspeakable, and msgspec.DecodeError or UnicodeDecodeError for a body no engine takes.
    """
    if request.kind is Kind.CHAT:
        return _rendered_chat(_chat.decode(request.body), model)
    body = _completion.decode(request.body)
    _refuse_cut(body)
    if body.prompt_embeds is not None or body.suffix is not None:
        raise Unspeakable("prompt_embeds and suffix have no field")
    text = body.prompt if isinstance(body.prompt, str) else next(iter(body.prompt), "")
    if body.add_special_tokens is False:
        return pb.TokenizeRequest(model_name=model, input=text, add_special_tokens=False)
    return pb.RenderCompletionRequest(model_name=model, prompt=text)


def has_parts(request: UdsRequest) -> bool:
    """Whether a message has content in parts, which may be media."""
    return isinstance(request, pb.RenderChatCompletionRequest) and any(
        message.content_parts for message in request.messages
    )


def _rendered_chat(body: _Chat, model: str) -> pb.RenderChatCompletionRequest:
    _refuse_cut(body)
    if body.add_special_tokens:
        raise Unspeakable("add_special_tokens has no field")
    arguments = _template_arguments(body)
    return pb.RenderChatCompletionRequest(
        model_name=model,
        messages=[_message(message) for message in body.messages],
        tools_json=_json(body.tools),
        chat_template=body.chat_template or "",
        add_generation_prompt=body.add_generation_prompt,
        continue_final_message=body.continue_final_message,
        chat_template_kwargs=msgspec.json.encode(arguments).decode() if arguments else None,
    )


def _template_arguments(body: _Chat) -> Mapping[str, Any]:
    """The template's arguments; fields of the body win over arguments of the same name."""
    given = body.chat_template_kwargs or {}
    arguments = dict(given)
    if body.documents is not None:
        arguments["documents"] = body.documents
    if body.reasoning_effort is not None:
        arguments["reasoning_effort"] = body.reasoning_effort
        arguments.setdefault("enable_thinking", body.reasoning_effort != "none")
    return arguments


def _message(given: _Message) -> pb.ChatMessage:
    message = pb.ChatMessage(role=given.role, tool_calls_json=_json(given.tool_calls))
    if isinstance(given.content, str):
        message.content = given.content
    elif given.content is not None:
        message.content_parts.extend(_parts(given.content))
    return message


def _parts(given: Sequence[str | dict[str, Any]]) -> list[pb.ContentPart]:
    return [
        pb.ContentPart(type="text", text=part) if isinstance(part, str) else _part(part)
        for part in given
    ]


def _part(given: dict[str, Any]) -> pb.ContentPart:
    match given:
        case {"type": str() as kind, "text": str() as text} if kind in _TEXT_PARTS:
            return pb.ContentPart(type=kind, text=text)
        case {"type": "image_url", "image_url": {"url": str() as url}}:
            return pb.ContentPart(type="image_url", image_url=pb.ImageUrl(url=url))
        case _:
            raise Unspeakable(f"a part of type {given.get('type')!r} has no field")


def _json(raw: msgspec.Raw) -> str | None:
    """The client's own text, so that keys keep their order; None where there is none."""
    return None if bytes(raw) == b"null" else bytes(raw).decode()


def _refuse_cut(body: _Body) -> None:
    if body.truncate_prompt_tokens not in (None, -1):
        raise Unspeakable("truncate_prompt_tokens has no field")
