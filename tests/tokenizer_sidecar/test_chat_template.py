"""Chat bodies to text: variables, choices between templates, open final messages, refusals."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from transformers import PreTrainedTokenizerFast

from tests.tokenizer_sidecar.disk import CHAT, TINY, chat, write_config
from tokenizer_sidecar.chat_template import ChatTemplate
from tokenizer_sidecar.errors import ModelError, RenderError, Unsupported

TOKENS = {"bos_token": "<s>", "eos_token": "</s>"}

RICH = (
    "{% for m in messages %}[{{ m.role }}]{{ m.content | trim }}"
    "{% if m.reasoning_content is defined %}<{{ m.reasoning_content }}>{% endif %}"
    "{% for c in m.tool_calls %}{{ c.function.arguments | tojson }}{% endfor %}{{ eos_token }}"
    "{% endfor %}{% for t in tools or [] %}{{ t | tojson }}{% endfor %}"
    "{% for d in documents or [] %}{{ d.title }}{% endfor %}"
    "{% if enable_thinking is defined %}think={{ enable_thinking }}{% endif %}"
    "{% if reasoning_effort is defined %}effort={{ reasoning_effort }}{% endif %}"
    "{% if add_generation_prompt %}[assistant]{% endif %}"
)
PARTS = (
    "{% for m in messages %}[{{ m.role }}]{% for p in m.content %}{{ p.text }}|{% endfor %}"
    "{{ eos_token }}{% endfor %}{% if add_generation_prompt %}[assistant]{% endif %}"
)
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}
ASKED = {"role": "assistant", "content": "The answer is "}


def template(source: str, **options: Any) -> ChatTemplate:
    return ChatTemplate({"default": source}, TOKENS, **options)


def render(source: str, body: dict[str, Any]) -> str:
    return template(source).render(body)


def test_special_tokens_are_variables() -> None:
    assert render("{{ bos_token }}{{ eos_token }}{{ pad_token }}", chat("a")) == "<s></s>"


def test_a_generation_prompt_is_added_unless_the_request_says_no() -> None:
    assert render(CHAT, chat("a")) == "<s>[user]a[assistant]"
    assert render(CHAT, chat("a", add_generation_prompt=False)) == "<s>[user]a"


def test_content_parts_go_to_templates_that_loop_over_them() -> None:
    body = chat({"role": "user", "content": [{"type": "text", "text": t} for t in "ab"]})
    assert render(PARTS, body) == "[user]a|b|</s>[assistant]"
    assert render(CHAT, body) == "<s>[user]a\nb[assistant]"


VARIANTS: dict[str, tuple[dict[str, Any], str]] = {
    "base": ({}, "[user]a</s>[assistant]"),
    "thinking off": (
        {"chat_template_kwargs": {"enable_thinking": False}},
        "[user]a</s>think=False[assistant]",
    ),
    "no generation prompt": ({"add_generation_prompt": False}, "[user]a</s>"),
    "documents": ({"documents": [{"title": "T"}]}, "[user]a</s>T[assistant]"),
    "tools": (
        {"tools": [TOOL]},
        '[user]a</s>{"type": "function", "function": '
        '{"name": "f", "description": "d", "parameters": {}}}[assistant]',
    ),
    "effort": ({"reasoning_effort": "low"}, "[user]a</s>think=Trueeffort=low[assistant]"),
    "no effort": ({"reasoning_effort": "none"}, "[user]a</s>think=Falseeffort=none[assistant]"),
    "effort and thinking": (
        {"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": False}},
        "[user]a</s>think=Falseeffort=high[assistant]",
    ),
    "effort in kwargs": (
        {"chat_template_kwargs": {"reasoning_effort": "low"}},
        "[user]a</s>effort=low[assistant]",
    ),
    "request wins over kwargs": (
        {
            "reasoning_effort": "low",
            "documents": [{"title": "T"}],
            "chat_template_kwargs": {
                "reasoning_effort": "high",
                "documents": [{"title": "U"}],
                "add_generation_prompt": False,
                "messages": [],
                "enable_thinking": 1,
            },
        },
        "[user]a</s>Tthink=1effort=low[assistant]",
    ),
    "kwargs without a value": (
        {"chat_template_kwargs": {"enable_thinking": None, "reasoning_effort": "auto"}},
        "[user]a</s>[assistant]",
    ),
    "unknown kwargs": ({"chat_template_kwargs": {"foo": 1}}, "[user]a</s>[assistant]"),
}


@pytest.mark.parametrize(("fields", "expected"), VARIANTS.values(), ids=VARIANTS.keys())
def test_every_field_that_changes_the_prompt_is_used(fields: dict[str, Any], expected: str) -> None:
    assert render(RICH, chat("a", **fields)) == expected


def test_reasoning_and_tool_calls_in_the_history_are_used() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": '{"ß": 1}'}}
    message = {"role": "assistant", "content": "b", "reasoning": "r", "tool_calls": [call]}
    expected = '[user]a</s>[assistant]b<r>{"ß": 1}</s>[assistant]'
    assert render(RICH, chat("a", message)) == expected


def test_requests_with_tools_take_the_template_for_tools() -> None:
    both = ChatTemplate({"default": "plain", "tool_use": "tools"}, {})
    assert both.render(chat("a")) == "plain"
    assert both.render(chat("a", tools=[TOOL])) == "tools"
    assert ChatTemplate({"default": "plain"}, {}).render(chat("a", tools=[TOOL])) == "plain"


def test_a_model_without_a_template_refuses_chats() -> None:
    with pytest.raises(Unsupported, match="no chat template"):
        ChatTemplate({}, {}).render(chat("a"))


def test_developers_stay_where_the_template_mentions_them() -> None:
    body = chat({"role": "developer", "content": "d"}, "a")
    assert render(CHAT, body) == "<s>[system]d[user]a[assistant]"
    knowing = CHAT + "{# 'developer' #}"
    assert render(knowing, body) == "<s>[developer]d[user]a[assistant]"


@pytest.mark.parametrize("place", ["field", "kwargs"])
def test_a_template_in_the_request_needs_trust(place: str) -> None:
    own = "{{ messages[0].content }}!"
    fields = {"chat_template": own}
    body = chat("a", **(fields if place == "field" else {"chat_template_kwargs": fields}))
    with pytest.raises(RenderError, match="not trusted"):
        render(CHAT, body)
    assert template(CHAT, trust_request_template=True).render(body) == "a!"


@pytest.mark.parametrize("own", ["{% if %}", 5], ids=repr)
def test_a_broken_template_in_the_request_is_refused(own: Any) -> None:
    with pytest.raises(RenderError, match="chat_template"):
        template(CHAT, trust_request_template=True).render(chat("a", chat_template=own))


def test_the_date_comes_from_the_given_clock() -> None:
    clock = template("{{ strftime_now('%Y') }}", now=lambda: datetime(2031, 1, 1))
    assert clock.render(chat("a")) == "2031"


REFUSED: dict[str, tuple[str, dict[str, Any]]] = {
    "raise_exception": ("{{ raise_exception('no') }}", {}),
    "wrong types": ("{{ 1 + messages }}", {}),
    "undefined": ("{{ nothing.at.all }}", {}),
    "division": ("{{ 1 / 0 }}", {}),
    "missing item": ("{{ messages[0].content.index('zz') }}", {}),
    "documents": (RICH, {"documents": "T"}),
    "document": (RICH, {"documents": ["T"]}),
    "effort": (RICH, {"reasoning_effort": 3}),
    "kwargs": (RICH, {"chat_template_kwargs": [1]}),
    "generation prompt": (RICH, {"add_generation_prompt": "yes"}),
}


@pytest.mark.parametrize(("source", "fields"), REFUSED.values(), ids=REFUSED.keys())
def test_what_the_template_cannot_render_is_refused(source: str, fields: dict[str, Any]) -> None:
    with pytest.raises(RenderError):
        render(source, chat("a", **fields))


def test_media_is_unsupported() -> None:
    with pytest.raises(Unsupported, match="image_url"):
        render(CHAT, chat({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}))


@pytest.mark.parametrize("fields", [{}, {"add_generation_prompt": True}], ids=["left out", "both"])
def test_continuing_excludes_a_generation_prompt(fields: dict[str, Any]) -> None:
    with pytest.raises(RenderError, match="add_generation_prompt"):
        render(CHAT, chat("a", ASKED, continue_final_message=True, **fields))


OPEN = {"continue_final_message": True, "add_generation_prompt": False}


def test_a_continued_message_stays_open() -> None:
    assert render(CHAT, chat("a", ASKED, **OPEN)) == "<s>[user]a[assistant]The answer is "
    assert render(PARTS, chat("a", ASKED, **OPEN)) == "[user]a|</s>[assistant]The answer is "


def test_a_template_that_trims_trims_the_open_message_too() -> None:
    assert render(RICH, chat("a", ASKED, **OPEN)) == "[user]a</s>[assistant]The answer is"


def test_a_message_that_the_template_drops_cannot_be_continued() -> None:
    for source in ("{{ messages[0].content }}", "fixed"):
        with pytest.raises(RenderError, match="continue"):
            render(source, chat("a", ASKED, **OPEN))


def test_a_message_without_text_cannot_be_continued() -> None:
    with pytest.raises(RenderError, match="no text"):
        render(PARTS, chat("a", {"role": "assistant"}, **OPEN))


def test_a_mistake_in_a_model_s_template_is_an_error_with_its_line(tmp_path: Path) -> None:
    write_config(tmp_path, chat_template="a\n{% if %}")
    with pytest.raises(ModelError, match=r"line 2") as caught:
        ChatTemplate.load(tmp_path)
    assert str(tmp_path) in str(caught.value)


def test_loading_reads_templates_and_tokens(tmp_path: Path) -> None:
    write_config(tmp_path, chat_template=CHAT, bos_token="<s>")
    assert ChatTemplate.load(tmp_path).render(chat("a")) == "<s>[user]a[assistant]"


SOURCES = {"string": CHAT, "rich": RICH, "parts": PARTS}
CONVERSATIONS: dict[str, dict[str, Any]] = {
    "one": chat("a"),
    "spaces": chat("  a \n", ASKED, "c "),
    "open": chat("a", ASKED, **OPEN),
    "open and trimmed": chat("a", {"role": "assistant", "content": " b\n"}, **OPEN),
    "tools": chat("Größe & <b>", tools=[TOOL]),
}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
@pytest.mark.parametrize("body", CONVERSATIONS.values(), ids=CONVERSATIONS.keys())
def test_text_equals_that_of_transformers(source: str, body: dict[str, Any]) -> None:
    tokenizer = Tokenizer.from_file(str(TINY / "tokenizer.json"))
    oracle = PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=tokenizer, **TOKENS
    )
    messages = body["messages"]
    if source == PARTS:
        messages = [{**m, "content": [{"type": "text", "text": m["content"]}]} for m in messages]
    expected = oracle.apply_chat_template(
        messages,
        tools=body.get("tools"),
        chat_template=source,
        tokenize=False,
        add_generation_prompt=body.get("add_generation_prompt", True),
        continue_final_message=body.get("continue_final_message", False),
    )
    assert render(source, body) == expected
