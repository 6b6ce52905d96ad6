"""Requests of llm-d's contract and the bodies they stand for."""

from __future__ import annotations

import pytest

from tokenizer_sidecar.errors import RenderError
from tokenizer_sidecar.llmd_bodies import chat, chat_template, completion
from tokenizer_sidecar.pb.tokenization_pb2 import (
    ChatMessage,
    ChatTemplateRequest,
    ContentPart,
    ConversationTurn,
    Document,
    ImageUrl,
    ListValue,
    RenderChatCompletionRequest,
    RenderCompletionRequest,
    StructValue,
    ToolDescription,
    Value,
)


def test_a_completion_is_its_prompt() -> None:
    assert completion(RenderCompletionRequest(prompt="a b")) == {"prompt": "a b"}


def test_a_chat_has_everything_that_changes_the_prompt() -> None:
    request = RenderChatCompletionRequest(
        messages=[
            ChatMessage(role="user", content=""),
            ChatMessage(role="assistant", tool_calls_json='[{"z": 1, "a": 2}]'),
            ChatMessage(
                role="user",
                content_parts=[
                    ContentPart(type="text", text="a"),
                    ContentPart(type="image_url", image_url=ImageUrl(url="data:,")),
                ],
            ),
        ],
        tools_json='[{"type": "function", "function": {"z": 1, "a": 2}}]',
        chat_template="x",
        continue_final_message=True,
        add_generation_prompt=False,
        chat_template_kwargs='{"enable_thinking": false}',
    )
    body = chat(request)
    assert body == {
        "messages": [
            {"role": "user", "content": ""},
            {"role": "assistant", "tool_calls": [{"z": 1, "a": 2}]},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "a"},
                    {"type": "image_url", "image_url": {"url": "data:,"}},
                ],
            },
        ],
        "tools": [{"type": "function", "function": {"z": 1, "a": 2}}],
        "chat_template": "x",
        "continue_final_message": True,
        "add_generation_prompt": False,
        "chat_template_kwargs": {"enable_thinking": False},
    }
    assert list(body["tools"][0]["function"]) == ["z", "a"]


def test_a_generation_prompt_is_added_unless_it_says_otherwise() -> None:
    assert chat(RenderChatCompletionRequest())["add_generation_prompt"] is True
    assert chat_template(ChatTemplateRequest())["add_generation_prompt"] is False


def test_the_older_form_has_turns_and_values_of_its_own() -> None:
    inner = StructValue(fields={"n": Value(number_value=2), "f": Value(number_value=0.5)})
    items = ListValue(values=[Value(bool_value=True), Value(string_value="s"), Value()])
    fields = {"struct": Value(struct_value=inner), "list": Value(list_value=items)}
    request = ChatTemplateRequest(
        conversation_turns=[
            ConversationTurn(messages=[ChatMessage(role="user", content="a")]),
            ConversationTurn(messages=[ChatMessage(role="assistant", content="b")]),
        ],
        tools=[ToolDescription(tool={"type": Value(string_value="function")})],
        documents=[Document(document=fields)],
        chat_template_kwargs=fields,
    )
    body = chat_template(request)
    values = {"struct": {"n": 2, "f": 0.5}, "list": [True, "s", None]}
    assert [message["content"] for message in body["messages"]] == ["a", "b"]
    assert body["documents"] == [values]
    assert body["chat_template_kwargs"] == values
    assert body["tools"] == [{"type": "function"}]
    assert isinstance(body["documents"][0]["struct"]["n"], int)


@pytest.mark.parametrize("field", ["tools_json", "chat_template_kwargs"])
@pytest.mark.parametrize("text", ["{", "[" * 100_000])
def test_what_is_no_json_is_refused_by_its_name(field: str, text: str) -> None:
    request = RenderChatCompletionRequest(messages=[ChatMessage(role="user")])
    setattr(request, field, text)
    with pytest.raises(RenderError, match=field):
        chat(request)
