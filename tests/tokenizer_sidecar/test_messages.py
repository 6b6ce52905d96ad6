"""Messages and tools on their way into a template, odd but legal ones above all."""

from __future__ import annotations

from typing import Any

import pytest

from tests.tokenizer_sidecar.disk import chat
from tokenizer_sidecar.errors import MediaContent, RenderError
from tokenizer_sidecar.messages import conversation, tools


def text(*messages: Any) -> list[dict[str, Any]]:
    return conversation(chat(*messages), parts=False, developer=False)


def parts(*messages: Any) -> list[dict[str, Any]]:
    return conversation(chat(*messages), parts=True, developer=False)


def called(arguments: Any, **fields: Any) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    call = {"id": "c1", "type": "function", "function": function}
    return {"role": "assistant", "content": None, "tool_calls": [call], **fields}


def part(value: str, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "text": value}


@pytest.mark.parametrize("content", [None, "", []], ids=repr)
def test_empty_content_is_an_empty_string(content: Any) -> None:
    assert text({"role": "assistant", "content": content})[0]["content"] == ""


def test_a_missing_content_key_is_an_empty_string() -> None:
    assert text({"role": "assistant"})[0]["content"] == ""


def test_text_parts_are_joined_by_newlines_for_string_templates() -> None:
    content = [
        "a",
        part("b"),
        part(""),
        part("c", "input_text"),
        {"type": "refusal", "refusal": "d"},
    ]
    assert text({"role": "user", "content": content})[0]["content"] == "a\nb\nc\nd"


def test_strings_become_parts_for_templates_that_want_parts() -> None:
    assert parts("a")[0]["content"] == [part("a")]
    assert parts({"role": "user", "content": ["a", part("b")]})[0]["content"] == [
        part("a"),
        part("b"),
    ]
    assert parts({"role": "assistant", "content": None})[0]["content"] == []


def test_parts_without_text_are_left_out() -> None:
    content = [{"type": "text", "text": None}, part("a")]
    assert text({"role": "user", "content": content})[0]["content"] == "a"
    assert parts({"role": "user", "content": content})[0]["content"] == [part("a")]


def test_thinking_and_tool_references_are_kept() -> None:
    content = [{"type": "thinking", "thinking": "t"}, {"type": "tool_reference", "name": "n"}]
    assert text({"role": "user", "content": content})[0]["content"] == "t\nn"
    assert parts({"role": "user", "content": content})[0]["content"][1] == content[1]


def test_tool_results_are_strings_for_every_template() -> None:
    result = {"role": "tool", "tool_call_id": "c1", "content": [part("12 C"), part("dry")]}
    expected = {"role": "tool", "tool_call_id": "c1", "content": "12 C\ndry"}
    assert text(result) == parts(result) == [expected]


def test_tool_results_with_references_stay_parts() -> None:
    reference = {"type": "tool_reference", "name": "n"}
    assert parts({"role": "tool", "content": [reference]})[0]["content"] == [reference]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ('{"city": "Oslo", "n": 2}', {"city": "Oslo", "n": 2}),
        ({"city": "Oslo"}, {"city": "Oslo"}),
        ("", {}),
        (None, {}),
        ("{not json", {}),
        ("[1]", {}),
        ("[" * 5000, {}),
    ],
    ids=["text", "object", "empty", "null", "broken", "list", "deep"],
)
def test_tool_call_arguments_become_objects(arguments: Any, expected: Any) -> None:
    (message,) = text(called(arguments))
    assert message["tool_calls"][0]["function"] == {"name": "f", "arguments": expected}
    assert message["tool_calls"][0]["id"] == "c1"


def test_the_body_itself_is_not_changed() -> None:
    message = called('{"a": 1}')
    text(message)
    assert message["tool_calls"][0]["function"]["arguments"] == '{"a": 1}'


def test_an_empty_list_of_tool_calls_is_dropped() -> None:
    assert "tool_calls" not in text({"role": "assistant", "content": "a", "tool_calls": []})[0]


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning_reaches_the_template_under_both_names(field: str) -> None:
    (message,) = text({"role": "assistant", "content": "a", field: "because"})
    assert message["reasoning"] == message["reasoning_content"] == "because"


def test_only_known_fields_reach_the_template() -> None:
    given = {"role": "user", "content": "a", "name": "bob", "extra": 1, "tool_calls": [1]}
    assert text(given) == [{"role": "user", "content": "a", "name": "bob"}]


def test_unknown_roles_are_legal() -> None:
    assert text({"role": "alien", "content": "x"}) == [{"role": "alien", "content": "x"}]


def test_a_lone_developer_message_becomes_the_system_message() -> None:
    given = {"role": "developer", "content": "d", "tools": [{"type": "function"}]}
    assert text(given, "u")[0] == {"role": "system", "content": "d"}


def test_developer_messages_are_merged_with_the_system_ones() -> None:
    system, developer = ({"role": r, "content": r} for r in ("system", "developer"))
    expected = [
        {"role": "system", "content": "system\n\ndeveloper"},
        {"role": "user", "content": "u"},
    ]
    assert text(system, "u", developer) == expected
    assert parts(system, "u", developer)[0] == expected[0]


def test_system_messages_stay_apart_without_a_developer() -> None:
    roles = [m["role"] for m in text({"role": "system", "content": "a"}, "u", {"role": "system"})]
    assert roles == ["system", "user", "system"]


def test_a_template_that_knows_developers_gets_them() -> None:
    given = {"role": "developer", "content": "d", "tools": [1]}
    assert conversation(chat(given), parts=False, developer=True) == [given]


@pytest.mark.parametrize(
    "content",
    [
        [{"type": "image_url", "image_url": {"url": "data:,"}}],
        [{"image_url": {"url": "data:,"}}],
        [part("a"), {"type": "input_audio", "input_audio": {}}],
        [{"type": "video_url", "video_url": {}}],
        [{"type": "prompt_embeds", "data": "AA=="}],
    ],
)
def test_media_is_unsupported_rather_than_refused(content: Any) -> None:
    with pytest.raises(MediaContent, match=r"messages\[0\]\.content"):
        text({"role": "user", "content": content})


BAD_BODIES: dict[str, Any] = {
    "no messages": {},
    "null": {"messages": None},
    "empty": {"messages": []},
    "text": {"messages": "hi"},
    "message is text": {"messages": ["hi"]},
    "no role": {"messages": [{"content": "a"}]},
    "role is a number": {"messages": [{"role": 1, "content": "a"}]},
    "content is a number": {"messages": [{"role": "user", "content": 5}]},
    "content is an object": {"messages": [{"role": "user", "content": {"type": "text"}}]},
    "part is a number": {"messages": [{"role": "user", "content": [5]}]},
    "part without type": {"messages": [{"role": "user", "content": [{"text": "a"}]}]},
    "part of unknown type": {"messages": [{"role": "user", "content": [{"type": "smell"}]}]},
    "part with an odd type": {"messages": [{"role": "user", "content": [{"type": ["text"]}]}]},
    "part with odd text": {
        "messages": [{"role": "user", "content": [{"type": "text", "text": 5}]}]
    },
    "calls are text": {"messages": [{"role": "assistant", "tool_calls": "f"}]},
    "call is text": {"messages": [{"role": "assistant", "tool_calls": ["f"]}]},
    "call without function": {"messages": [{"role": "assistant", "tool_calls": [{}]}]},
}


@pytest.mark.parametrize("body", BAD_BODIES.values(), ids=BAD_BODIES.keys())
def test_what_no_template_can_use_is_refused(body: Any) -> None:
    with pytest.raises(RenderError):
        conversation(body, parts=False, developer=False)


def test_tools_are_written_as_the_engine_writes_them() -> None:
    given = {
        "x": 1,
        "function": {"strict": True, "parameters": {"b": 1, "a": 2}, "name": "f", "extra": 1},
        "type": "function",
    }
    (tool,) = tools([given]) or []
    assert list(tool) == ["type", "function"]
    assert list(tool["function"]) == ["name", "description", "parameters", "strict"]
    assert tool["function"]["description"] is None
    assert list(tool["function"]["parameters"]) == ["b", "a"]


def test_deferred_loading_shows_on_tool_and_function() -> None:
    (tool,) = tools([{"type": "function", "defer_loading": True, "function": {"name": "f"}}]) or []
    assert tool["defer_loading"] is tool["function"]["defer_loading"] is True


def test_no_tools_are_none() -> None:
    assert tools(None) is None


@pytest.mark.parametrize(
    "given",
    ["f", [1], [{"type": "retrieval"}], [{"type": "function"}], [{"function": {}}]],
    ids=repr,
)
def test_tools_that_are_not_functions_are_refused(given: Any) -> None:
    with pytest.raises(RenderError, match="tools"):
        tools(given)
