from __future__ import annotations

from typing import Any

import msgspec
import pytest

from router.errors import BadRequest
from router.request.responses import responses
from router.request.types import Kind


def chat(**body: Any) -> Any:
    """The chat that is made of a body; None where there is none."""
    read = responses(msgspec.json.encode({"model": "m", **body}))
    assert read.prompt_known is (read.kind is Kind.CHAT)
    return msgspec.json.decode(read.prompt) if read.prompt_known else None


def test_a_text_is_what_the_user_says() -> None:
    made = chat(input="hi", instructions="be brief", reasoning={"effort": "low"})
    assert made == {
        "model": "m",
        "messages": [
            {"role": "system", "content": "be brief"},
            {"role": "user", "content": "hi"},
        ],
        "reasoning_effort": "low",
    }


def test_items_are_messages_calls_and_results() -> None:
    part = {"type": "input_text", "text": "hi"}
    made = chat(
        input=[
            {"role": "user", "content": [part]},
            {"type": "message", "role": "assistant", "content": "wait"},
            {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"},
            {"type": "function_call_output", "call_id": "c", "output": "42"},
        ]
    )
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    assert made["messages"] == [
        {"role": "user", "content": [{"type": "text", "text": "hi"}]},
        {"role": "assistant", "content": "wait"},
        {"role": "assistant", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "42"},
    ]


def test_function_tools_are_rendered() -> None:
    tool = {"type": "function", "name": "f", "parameters": {}}
    assert chat(input="hi", tools=[tool])["tools"] == [{"type": "function", "function": tool}]


@pytest.mark.parametrize(
    "body",
    [
        {"input": "hi", "previous_response_id": "r"},
        {"input": "hi", "conversation": "c"},
        {"prompt": {"id": "p"}},
        {"input": "hi", "tools": [{"type": "web_search"}]},
        {"input": [{"type": "reasoning", "summary": []}]},
        {"input": [{"role": "user", "content": [{"type": "input_image"}]}]},
        {"input": [{"role": "user", "content": None}]},
        {"input": []},
        {"input": ""},
    ],
    ids=str,
)
def test_what_cannot_be_rendered_goes_by_load(body: dict[str, Any]) -> None:
    assert chat(**body) is None


@pytest.mark.parametrize("body", [{}, {"input": 3}, {"input": ["x"]}], ids=str)
def test_an_impossible_input_is_a_bad_request(body: dict[str, Any]) -> None:
    with pytest.raises(BadRequest):
        responses(msgspec.json.encode(body))


def test_its_answers_always_tell_the_usage() -> None:
    assert responses(b'{"input": "hi", "stream": true}').tells_usage
