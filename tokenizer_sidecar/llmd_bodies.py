"""Requests of llm-d's tokenizer contract, turned into the OpenAI bodies they stand for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from tokenizer_sidecar.errors import RenderError
from tokenizer_sidecar.pb.tokenization_pb2 import (
    ChatMessage,
    ChatTemplateRequest,
    RenderChatCompletionRequest,
    RenderCompletionRequest,
    Value,
)

Body = dict[str, Any]


def completion(request: RenderCompletionRequest) -> Body:
    """A /v1/completions body."""
    return {"prompt": request.prompt}


def chat(request: RenderChatCompletionRequest) -> Body:
    """A /v1/chat/completions body. Raises RenderError."""
    body: Body = {
        "messages": _messages(request.messages),
        # Unlike in the older form, leaving it out means yes, as in OpenAI's.
        "add_generation_prompt": (
            request.add_generation_prompt if request.HasField("add_generation_prompt") else True
        ),
        "continue_final_message": request.continue_final_message,
    }
    if request.HasField("tools_json"):
        body["tools"] = _json("tools_json", request.tools_json)
    if request.HasField("chat_template_kwargs"):
        body["chat_template_kwargs"] = _json("chat_template_kwargs", request.chat_template_kwargs)
    if request.chat_template:
        body["chat_template"] = request.chat_template
    return body


def chat_template(request: ChatTemplateRequest) -> Body:
    """A /v1/chat/completions body of the older form."""
    turns = (message for turn in request.conversation_turns for message in turn.messages)
    body: Body = {
        "messages": _messages(turns),
        "add_generation_prompt": request.add_generation_prompt,
        "continue_final_message": request.continue_final_message,
        "chat_template_kwargs": _fields(request.chat_template_kwargs.items()),
    }
    if request.tools:
        body["tools"] = [_fields(tool.tool.items()) for tool in request.tools]
    if request.documents:
        body["documents"] = [_fields(each.document.items()) for each in request.documents]
    if request.chat_template:
        body["chat_template"] = request.chat_template
    return body


def _messages(given: Iterable[ChatMessage]) -> list[Body]:
    return [_message(message) for message in given]


def _message(given: ChatMessage) -> Body:
    message: Body = {"role": given.role}
    if given.content_parts:
        message["content"] = [_part(part) for part in given.content_parts]
    elif given.HasField("content"):
        message["content"] = given.content
    if given.HasField("tool_calls_json"):
        message["tool_calls"] = _json("tool_calls_json", given.tool_calls_json)
    return message


def _part(given: Any) -> Body:
    part: Body = {"type": given.type}
    if given.HasField("text"):
        part["text"] = given.text
    if given.HasField("image_url"):
        part["image_url"] = {"url": given.image_url.url}
    return part


def _json(name: str, text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, RecursionError) as error:
        raise RenderError(f"{name} is not JSON: {error}") from error


def _fields(given: Iterable[tuple[str, Value]]) -> Body:
    return {name: _value(value) for name, value in given}


def _value(given: Value) -> Any:
    match given.WhichOneof("value"):
        case "string_value":
            return given.string_value
        case "number_value":
            # The contract has one kind of number; whole ones are meant as such.
            number = given.number_value
            return int(number) if number.is_integer() else number
        case "bool_value":
            return given.bool_value
        case "list_value":
            return [_value(item) for item in given.list_value.values]
        case "struct_value":
            return _fields(given.struct_value.fields.items())
        case _:
            return None
