"""Anthropic's Messages API: its messages as the OpenAI chat that engines make of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from router.errors import BadRequest
from router.request.bodies import Fields, Read, decode
from router.request.types import Kind

BILLING = "x-anthropic-billing-header"
"""Beginning of a system block that clients add anew to each request and engines leave out."""


class _Block(msgspec.Struct, omit_defaults=True):
    type: str
    text: str | None = None
    thinking: str | None = None
    id: str | None = None
    name: str | None = None
    input: Any = None
    tool_use_id: str | None = None
    content: Any = None


class _Message(msgspec.Struct):
    role: str
    content: str | list[_Block]


class _Tool(msgspec.Struct):
    name: str
    description: str | None = None
    input_schema: Any = None


class _Messages(Fields, kw_only=True):
    messages: list[_Message]
    system: str | list[_Block] | None = None
    tools: list[_Tool] | None = None


class _Unknown(Exception):
    """The messages hold something whose rendering is not known here, such as an image."""


_messages = msgspec.json.Decoder(_Messages)


def messages(body: bytes) -> Read:
    """``/v1/messages``. Raises BadRequest."""
    read = decode(_messages, body)
    if not read.messages:
        raise BadRequest("expected at least one message - at `$.messages`")
    try:
        prompt = msgspec.json.encode(_chat(read))
    except _Unknown:
        return Read(fields=read, tells_usage=True)
    return Read(
        fields=read,
        kind=Kind.CHAT,
        prompt=prompt,
        prompt_known=True,
        cache_salt=read.cache_salt,
        # Its answers always carry the usage, streamed or not.
        tells_usage=True,
    )


def _chat(read: _Messages) -> Mapping[str, Any]:
    made: list[Mapping[str, Any]] = []
    system = _system(read.system)
    if system:
        made.append({"role": "system", "content": system})
    for message in read.messages:
        made.extend(_rendered(message))
    chat: dict[str, Any] = {"model": read.model, "messages": made}
    if read.tools is not None:
        chat["tools"] = [_tool(tool) for tool in read.tools]
    return chat


def _system(system: str | Sequence[_Block] | None) -> str:
    if system is None or isinstance(system, str):
        return system or ""
    texts = (block.text or "" for block in system if block.type == "text")
    return "".join(text for text in texts if not text.startswith(BILLING))


def _tool(tool: _Tool) -> Mapping[str, Any]:
    function = {
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.input_schema,
    }
    return {"type": "function", "function": function}


def _rendered(message: _Message) -> Iterator[Mapping[str, Any]]:
    """Results of tools come first, as messages of their own; then what is left of the message."""
    if isinstance(message.content, str):
        yield {"role": message.role, "content": message.content}
        return
    texts, calls, thoughts = [], [], []
    for block in message.content:
        match block.type:
            case "text":
                texts += [block.text] if block.text else []
            case "thinking":
                thoughts.append(block.thinking or "")
            case "tool_use":
                calls.append(_call(block))
            case "tool_result" if message.role == "user":
                yield _result(block)
            case _:
                raise _Unknown
    rest: dict[str, Any] = {"role": message.role}
    if thoughts:
        rest["reasoning"] = "".join(thoughts)
    if calls:
        rest["tool_calls"] = calls
    if texts:
        parts = [{"type": "text", "text": text} for text in texts]
        rest["content"] = texts[0] if len(texts) == 1 else parts
    if len(rest) > 1:
        yield rest


def _call(block: _Block) -> Mapping[str, Any]:
    # How they are written does not matter: engines read them before they render them.
    arguments = msgspec.json.encode(block.input or {}).decode()
    function = {"name": block.name or "", "arguments": arguments}
    return {"id": block.id or "", "type": "function", "function": function}


def _result(block: _Block) -> Mapping[str, Any]:
    match block.content:
        case None:
            text = ""
        case str():
            text = block.content
        case [{"type": "text", "text": str() as only}]:
            text = only
        case _:
            raise _Unknown
    return {"role": "tool", "tool_call_id": block.tool_use_id or "", "content": text}
