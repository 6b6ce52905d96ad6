from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.errors import BadRequest
from router.request.anthropic import BILLING, messages
from router.request.types import Kind

USER = {"role": "user", "content": "hi"}


def chat(*turns: Any, **body: Any) -> Any:
    """The chat that is made of a body; None where there is none."""
    read = messages(msgspec.json.encode({"model": "m", "messages": turns or (USER,), **body}))
    assert read.prompt_known is (read.kind is Kind.CHAT)
    return msgspec.json.decode(read.prompt) if read.prompt_known else None


def rendered(*turns: Any, **body: Any) -> Any:
    made = chat(*turns, **body)
    return None if made is None else made["messages"]


def test_texts_stay_texts() -> None:
    answer = {"role": "assistant", "content": [{"type": "text", "text": "hello"}]}
    assert rendered(USER, answer) == [USER, {"role": "assistant", "content": "hello"}]


def test_several_texts_are_parts() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert rendered({"role": "user", "content": parts}) == [{"role": "user", "content": parts}]


@pytest.mark.parametrize(
    ("system", "content"),
    [
        ("be brief", "be brief"),
        ([{"type": "text", "text": "be "}, {"type": "text", "text": "brief"}], "be brief"),
        ([{"type": "text", "text": f"{BILLING}: x"}, {"type": "text", "text": "brief"}], "brief"),
    ],
    ids=["text", "blocks", "billing"],
)
def test_the_system_prompt_is_the_first_message(system: Any, content: str) -> None:
    assert rendered(system=system) == [{"role": "system", "content": content}, USER]


@pytest.mark.parametrize("system", ["", [], None], ids=repr)
def test_without_a_system_prompt_there_is_no_such_message(system: Any) -> None:
    assert rendered(system=system) == [USER]


def test_tools_are_functions() -> None:
    schema = {"type": "object", "properties": {"b": {}, "a": {}}}
    made = chat(tools=[{"name": "f", "description": "d", "input_schema": schema}])
    (tool,) = made["tools"]
    assert tool == {
        "type": "function",
        "function": {"name": "f", "description": "d", "parameters": schema},
    }
    assert list(tool["function"]["parameters"]["properties"]) == ["b", "a"]


def test_a_tool_is_called_and_answers() -> None:
    use = {"type": "tool_use", "id": "t1", "name": "f", "input": {"x": 1}}
    result = {"type": "tool_result", "tool_use_id": "t1", "content": "42"}
    more = {"type": "text", "text": "so?"}
    call, tool, rest = rendered(
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}, use]},
        {"role": "user", "content": [result, more]},
    )
    function = {"name": "f", "arguments": '{"x":1}'}
    assert call == {
        "role": "assistant",
        "reasoning": "hm",
        "tool_calls": [{"id": "t1", "type": "function", "function": function}],
    }
    assert tool == {"role": "tool", "tool_call_id": "t1", "content": "42"}
    assert rest == {"role": "user", "content": "so?"}


@pytest.mark.parametrize(
    ("content", "text"), [(None, ""), ([{"type": "text", "text": "x"}], "x")], ids=["none", "part"]
)
def test_what_a_tool_answers_is_text(content: Any, text: str) -> None:
    result = {"type": "tool_result", "tool_use_id": "t", "content": content}
    (tool,) = rendered({"role": "user", "content": [result]})
    assert tool["content"] == text


@pytest.mark.parametrize(
    "block",
    [
        {"type": "image", "source": {"type": "base64", "data": "AA=="}},
        {"type": "document", "source": {}},
        {"type": "tool_result", "tool_use_id": "t", "content": [{"type": "image"}]},
    ],
    ids=lambda block: block["type"],
)
def test_what_cannot_be_rendered_goes_by_load(block: Any) -> None:
    assert rendered({"role": "user", "content": [block]}) is None


@pytest.mark.parametrize("turns", [[], None, ["x"], [{"content": "x"}]], ids=str)
def test_impossible_messages_are_a_bad_request(turns: Any) -> None:
    with pytest.raises(BadRequest):
        messages(msgspec.json.encode({"messages": turns}))


def test_its_answers_always_tell_the_usage() -> None:
    body = msgspec.json.encode({"model": "m", "messages": [USER], "stream": True})
    assert messages(body).tells_usage
