"""OpenAI messages and tools, turned into what a chat template is given.

The rules are vLLM's: what it keeps of a message, how it joins text parts, what becomes of roles the
template does not know.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizer_sidecar.errors import MediaContent, RenderError

Message = dict[str, Any]

_TEXT_FIELDS: Mapping[str, str] = {
    "text": "text",
    "input_text": "text",
    "output_text": "text",
    "refusal": "refusal",
    "thinking": "thinking",
}
"""Part type to the field that holds its text."""

_MEDIA = frozenset(
    {
        "image_url",
        "input_image",
        "image_embeds",
        "image_pil",
        "audio_url",
        "input_audio",
        "audio_embeds",
        "video_url",
        "video_embeds",
        "prompt_embeds",
    }
)
"""Part types, and the fields that stand for them in parts without a type."""


def conversation(body: Mapping[str, Any], *, parts: bool, developer: bool) -> list[Message]:
    """The body's messages for the template.

    Args:
        parts: The template wants content as a list of parts, not as a string.
        developer: The template knows the role of that name.

    Raises RenderError, MediaContent.
    """
    given = body.get("messages")
    if not isinstance(given, list) or not given:
        raise RenderError("messages must be a list with at least one message")
    messages = [_message(message, i, parts) for i, message in enumerate(given)]
    if developer or all(message["role"] != "developer" for message in messages):
        return messages
    return _one_system_message(messages)


def _message(given: Any, index: int, parts: bool) -> Message:
    where = f"messages[{index}]"
    if not isinstance(given, dict) or not isinstance(given.get("role"), str):
        raise RenderError(f"{where} must be an object with a role")
    role = given["role"]
    content = _content(given.get("content"), where, parts)
    message: Message = {"role": role, "content": content}
    if role == "assistant":
        _add_assistant_fields(message, given, where)
    elif role == "tool":
        message["content"] = _tool_content(content)
        if given.get("tool_call_id") is not None:
            message["tool_call_id"] = given["tool_call_id"]
    elif role == "developer" and given.get("tools") is not None:
        message["tools"] = given["tools"]
    if isinstance(given.get("name"), str):
        message["name"] = given["name"]
    return message


def _content(given: Any, where: str, parts: bool) -> str | list[Message]:
    match given:
        case None:
            items: list[Any] = []
        case str():
            items = [{"type": "text", "text": given}]
        case list():
            items = given
        case _:
            raise RenderError(f"{where}.content must be a string or a list of parts")
    read = [_part(item, where) for item in items]
    if parts:
        return [part for part in read if part is not None]
    # Empty texts leave no line of their own.
    return "\n".join(
        text for part in read if part and (text := part.get("text") or part.get("name"))
    )


def _part(given: Any, where: str) -> Message | None:
    """A text part in one form; None where it holds nothing."""
    if isinstance(given, str):
        return {"type": "text", "text": given}
    if not isinstance(given, dict):
        raise RenderError(f"{where}.content: a part must be an object or a string")
    kind = _kind(given)
    if not isinstance(kind, str):
        raise RenderError(f"{where}.content has a part without a type")
    if kind in _MEDIA:
        raise MediaContent(f"{where}.content has a part of type {kind}")
    if kind == "tool_reference" and isinstance(given.get("name"), str):
        return {"type": kind, "name": given["name"]}
    field = _TEXT_FIELDS.get(kind)
    if field is None:
        raise RenderError(f"{where}.content has a part of unknown type {kind!r}")
    text = given.get(field)
    if text is None and kind in ("text", "refusal"):
        return None
    if not isinstance(text, str):
        raise RenderError(f"{where}.content: {field} must be a string")
    return {"type": "text", "text": text}


def _kind(given: Mapping[str, Any]) -> Any:
    kind = given.get("type")
    if kind is None or given.get("uuid") is not None:
        return next((field for field in given if field in _MEDIA), kind)
    return kind


def is_media(part: Any) -> bool:
    """Whether a part of a message's content is an image, a sound or the like."""
    if not isinstance(part, dict):
        return False
    kind = _kind(part)
    return isinstance(kind, str) and kind in _MEDIA


def _tool_content(content: str | list[Message]) -> str | list[Message]:
    """Tool results as a string even for templates that want parts: most expect nothing else."""
    if isinstance(content, str) or any(part["type"] != "text" for part in content):
        return content
    return "\n".join(part["text"] for part in content)


def _add_assistant_fields(message: Message, given: Mapping[str, Any], where: str) -> None:
    calls = given.get("tool_calls")
    if calls is not None and not isinstance(calls, list):
        raise RenderError(f"{where}.tool_calls must be a list")
    if calls:
        message["tool_calls"] = [_tool_call(call, f"{where}.tool_calls") for call in calls]
    reasoning = given.get("reasoning")
    if reasoning is None:
        reasoning = given.get("reasoning_content")
    if reasoning is not None:
        message["reasoning"] = message["reasoning_content"] = reasoning


def _tool_call(given: Any, where: str) -> Message:
    function = given.get("function") if isinstance(given, dict) else None
    if not isinstance(function, dict) or given.get("type", "function") != "function":
        raise RenderError(f"{where}: each call must be an object of type function")
    return {**given, "function": {**function, "arguments": _arguments(function.get("arguments"))}}


def _arguments(given: Any) -> Message:
    """The arguments as an object. A history that holds something else must not end a conversation,
    so it becomes an empty one."""
    if isinstance(given, str) and given:
        try:
            given = json.loads(given)
        except (ValueError, RecursionError):
            return {}
    return given if isinstance(given, dict) else {}


def _one_system_message(messages: Sequence[Message]) -> list[Message]:
    """Developer messages become system messages; unless there is just one, at the start already,
    they are all merged into the first place, where templates insist on having it."""
    known = [_as_system(m) if m["role"] == "developer" else m for m in messages]
    places = [i for i, message in enumerate(known) if message["role"] == "system"]
    if places == [0]:
        return known
    texts = [_text(known[i]["content"]) for i in places]
    merged = {"role": "system", "content": "\n\n".join(text for text in texts if text)}
    return [merged, *(message for message in known if message["role"] != "system")]


def _as_system(message: Message) -> Message:
    return {key: value for key, value in message.items() if key != "tools"} | {"role": "system"}


def _text(content: str | list[Message]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if "text" in part)


def tools(given: Any) -> list[Message] | None:
    """The tools as the engine's own request type writes them out: fixed key order, no unknown keys,
    null where a description or the parameters are missing. Raises RenderError."""
    if given is None:
        return None
    if not isinstance(given, list):
        raise RenderError("tools must be a list")
    return [_tool(tool, i) for i, tool in enumerate(given)]


def _tool(given: Any, index: int) -> Message:
    function = given.get("function") if isinstance(given, dict) else None
    if not isinstance(function, dict) or given.get("type", "function") != "function":
        raise RenderError(f"tools[{index}] must be an object of type function")
    if not isinstance(function.get("name"), str):
        raise RenderError(f"tools[{index}].function must have a name")
    deferred = given.get("defer_loading")
    written = {key: function.get(key) for key in ("name", "description", "parameters")}
    optional = {
        "strict": function.get("strict"),
        "defer_loading": function.get("defer_loading", deferred),
    }
    written |= {key: value for key, value in optional.items() if value is not None}
    tool = {"type": "function", "function": written}
    return tool if deferred is None else {**tool, "defer_loading": deferred}
