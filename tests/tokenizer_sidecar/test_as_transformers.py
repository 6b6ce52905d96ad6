"""Rendered ids of real models equal what transformers makes of the same chat."""

# ruff: noqa: RUF001 - characters that look like others are here on purpose

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from itertools import product
from typing import Any

import jinja2
import pytest
from transformers import PreTrainedTokenizerFast

from tests.support import npm_models
from tests.tokenizer_sidecar.disk import TINY
from tokenizer_sidecar.render import Renderer, RenderError

MODELS = ("tiny", "qwen3", "llama3_1", "deepseek_v3", "gemma3")

ARGUMENTS = {"z": "Zürich", "a": [1, None], "b": {"c": 0.5}}

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": 'Wetter für <Stadt> & "Land"',
            "parameters": {"type": "object", "properties": {"z": {"type": "string"}, "a": {}}},
        },
    }
]


def call(arguments: object) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": arguments}}


def said(role: str, content: str, **fields: Any) -> dict[str, Any]:
    return {"role": role, "content": content, **fields}


SYSTEM = said("system", "Be brief.\n")
USER = said("user", "  What's <b>new</b>?\n你好，世界。 <|im_start|> 12345 ")
ANSWER = said("assistant", "<think>\nhm\n</think>\n\nNothing. ")
CALLING = said("assistant", "", tool_calls=[call(ARGUMENTS)])
RESULT = said("tool", '{"degrees": 21}', tool_call_id="c1")

CHATS: Mapping[str, list[dict[str, Any]]] = {
    "one question": [USER],
    "a system message": [SYSTEM, USER],
    "turns": [SYSTEM, USER, ANSWER, USER],
    "an answer to go on with": [USER, said("assistant", "Well, the thing is")],
    "a call": [SYSTEM, USER, CALLING, RESULT],
    "a call and more": [USER, CALLING, RESULT, said("assistant", "21 degrees."), USER],
    "two users": [USER, USER],
    "an answer first": [ANSWER, USER],
}

OPTIONS = {
    "as usual": {"add_generation_prompt": True},
    "no generation prompt": {"add_generation_prompt": False},
    "going on": {"add_generation_prompt": False, "continue_final_message": True},
}

KWARGS: Mapping[str, dict[str, Any]] = {
    "no kwargs": {},
    "thinking off": {"enable_thinking": False},
    "a date": {"date_string": "1 Feb 2026", "tools_in_user_message": False},
}


@cache
def ours(name: str) -> Renderer:
    return Renderer.load(TINY if name == "tiny" else npm_models.directory(name))


@cache
def theirs(name: str) -> PreTrainedTokenizerFast:
    directory = TINY if name == "tiny" else npm_models.directory(name)
    # The generic class: it takes tokenizer.json as it is, and does not build one of its own.
    tokenizer: PreTrainedTokenizerFast = PreTrainedTokenizerFast.from_pretrained(str(directory))
    return tokenizer


def by_transformers(name: str, messages: list[dict[str, Any]], **options: Any) -> list[int] | None:
    """None where the template refuses."""
    try:
        text = theirs(name).apply_chat_template(messages, tokenize=False, **options)
    except (jinja2.TemplateError, TypeError, ValueError):
        return None
    ids: list[int] = theirs(name)(text, add_special_tokens=False)["input_ids"]
    return ids


def by_us(name: str, body: dict[str, Any]) -> list[int] | None:
    try:
        return ours(name).chat(body)
    except RenderError:
        return None


def as_sent(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Arguments as clients send them: as text."""
    text = json.dumps(ARGUMENTS, ensure_ascii=False)
    return [{**m, "tool_calls": [call(text)]} if "tool_calls" in m else m for m in messages]


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("chat", CHATS)
def test_ids_are_those_of_transformers(name: str, chat: str) -> None:
    rendered = 0
    for tools, option, kwargs in product((None, TOOLS), OPTIONS.values(), KWARGS.values()):
        expected = by_transformers(name, CHATS[chat], tools=tools, **option, **kwargs)
        body = {"messages": as_sent(CHATS[chat]), **option, "chat_template_kwargs": kwargs}
        found = by_us(name, body if tools is None else {**body, "tools": tools})
        assert found == expected, (option, kwargs, tools is not None)
        rendered += expected is not None
    assert rendered or chat in ("two users", "an answer first", "a call", "a call and more")
