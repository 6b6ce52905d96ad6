"""OpenAI's Responses API: its input as the chat that an engine makes of it.

What lies on the engine (an earlier response, a conversation) cannot be known here: such a request
goes by load.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec

from router.errors import BadRequest
from router.request.bodies import Fields, Read, decode
from router.request.types import Kind


class _Reasoning(msgspec.Struct):
    effort: str | None = None


class _Responses(Fields):
    input: str | list[dict[str, Any]] | None = None
    instructions: str | None = None
    tools: list[dict[str, Any]] | None = None
    reasoning: _Reasoning | None = None
    previous_response_id: str | None = None
    conversation: Any = None
    prompt: Any = None

    @property
    def tells_usage(self) -> bool:
        """Its last event always carries the usage."""
        return True

    @property
    def refers(self) -> bool:
        """A part of the prompt lies elsewhere."""
        elsewhere = (self.previous_response_id, self.conversation, self.prompt)
        return any(part is not None for part in elsewhere)


class _Unknown(Exception):
    """The input holds something whose rendering is not known here."""


_responses = msgspec.json.Decoder(_Responses)


def responses(body: bytes) -> Read:
    """``/v1/responses``. Raises BadRequest."""
    read = decode(_responses, body)
    if read.input is None and not read.refers:
        raise BadRequest("`input` is missing or null: expected text or a list - at `$.input`")
    prompt = b""
    if read.input and not read.refers:
        try:
            prompt = msgspec.json.encode(_chat(read))
        except _Unknown:
            prompt = b""
    return Read(
        fields=read,
        kind=Kind.CHAT if prompt else Kind.OTHER,
        prompt=prompt,
        prompt_known=bool(prompt),
        cache_salt=read.cache_salt,
        tells_usage=read.tells_usage,
    )


def _chat(read: _Responses) -> Mapping[str, Any]:
    messages: list[Mapping[str, Any]] = []
    if read.instructions:
        messages.append({"role": "system", "content": read.instructions})
    if isinstance(read.input, str):
        messages.append({"role": "user", "content": read.input})
    else:
        messages.extend(_messages(read.input or []))
    chat: dict[str, Any] = {"model": read.model, "messages": messages}
    if read.tools:
        chat["tools"] = [_tool(tool) for tool in read.tools]
    if read.reasoning is not None and read.reasoning.effort is not None:
        chat["reasoning_effort"] = read.reasoning.effort
    return chat


def _tool(tool: Mapping[str, Any]) -> Mapping[str, Any]:
    if tool.get("type") != "function":
        raise _Unknown
    return {"type": "function", "function": tool}


def _messages(items: list[dict[str, Any]]) -> Iterator[Mapping[str, Any]]:
    for item in items:
        match item.get("type", "message"):
            case "message":
                yield {"role": item.get("role"), "content": _content(item.get("content"))}
            case "function_call":
                function = {"name": item.get("name"), "arguments": item.get("arguments")}
                call = {"id": item.get("call_id"), "type": "function", "function": function}
                yield {"role": "assistant", "tool_calls": [call]}
            case "function_call_output":
                output = _content(item.get("output"))
                yield {"role": "tool", "tool_call_id": item.get("call_id"), "content": output}
            case _:
                raise _Unknown


def _content(content: object) -> object:
    if isinstance(content, str):
        return content
    if not isinstance(content, list):
        raise _Unknown
    return [_part(part) for part in content]


def _part(part: object) -> Mapping[str, Any]:
    match part:
        case {"type": "input_text" | "output_text" | "text", "text": str() as text}:
            return {"type": "text", "text": text}
        case _:
            raise _Unknown
