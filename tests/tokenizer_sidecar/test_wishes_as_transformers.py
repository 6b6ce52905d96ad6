"""What a request may ask of its prompt, on real models, against transformers.

Where an engine changes messages before its template sees them (text parts, the role developer),
the other side is given what the engine would make of them.
"""

# ruff: noqa: RUF001 - characters that look like others are here on purpose

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.support import npm_models
from tests.tokenizer_sidecar.disk import TINY, chat
from tests.tokenizer_sidecar.test_as_transformers import (
    MODELS,
    by_transformers,
    by_us,
    ours,
    said,
    theirs,
)
from tests.tokenizer_sidecar.test_exact_ids import texts
from tokenizer_sidecar.render import Renderer, RenderError, Unsupported

Messages = list[dict[str, Any]]

WITH_BOS = ("llama3_1", "gemma3")
"""Models whose tokenizer puts one before every text."""

TAKES_PARTS = ("gemma3",)
"""Models whose template loops over a message's parts."""


class Wish(msgspec.Struct, frozen=True):
    """
    Attributes:
        messages: As the client sends them.
        body: What else the client sends.
        seen: What the template is given instead of `messages`; None: the same.
        variables: What else it is given.
    """

    messages: Messages
    body: Mapping[str, Any] = {}
    seen: Messages | None = None
    variables: Mapping[str, Any] = {}


def part(text: str, kind: str = "text") -> dict[str, Any]:
    return {"type": kind, "text": text}


def called(arguments: Any) -> dict[str, Any]:
    function = {"name": "f", "arguments": arguments}
    return said(
        "assistant", "", tool_calls=[{"id": "c1", "type": "function", "function": function}]
    )


SYSTEM = said("system", "Be brief.\n")
USER = said("user", "What's new in Zürich?")
ANSWER = said("assistant", "Nothing.")
DEVELOPER = said("developer", "No jokes.")
RESULT = said("tool", "21", tool_call_id="c1")

ARGUMENTS = (
    '{"z": 1, "a": {"y": [1.5, 1e3, null, true], "x": "<b> \\u00e9 é"}, "m": 12345678901234567890}'
)

SENT_TOOL = {
    "function": {
        "parameters": {"type": "object", "properties": {"z": {}, "a": {"enum": [2, 1]}}, "x-y": 1},
        "name": "f",
        "unknown": True,
    },
    "type": "function",
}
SEEN_TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "description": None,
        "parameters": SENT_TOOL["function"]["parameters"],  # type: ignore[index]
    },
}
DOCUMENTS = [{"title": "T", "text": "Zürich is a city.", "a": 1}]

WISHES: Mapping[str, Wish] = {
    "developer": Wish([DEVELOPER, USER], seen=[said("system", "No jokes."), USER]),
    "system and developer": Wish(
        [SYSTEM, DEVELOPER, USER], seen=[said("system", "Be brief.\n\n\nNo jokes."), USER]
    ),
    "developer later": Wish(
        [USER, ANSWER, DEVELOPER, USER], seen=[said("system", "No jokes."), USER, ANSWER, USER]
    ),
    "effort": Wish(
        [USER],
        {"reasoning_effort": "low"},
        variables={"reasoning_effort": "low", "enable_thinking": True},
    ),
    "no effort": Wish(
        [USER],
        {"reasoning_effort": "none"},
        variables={"reasoning_effort": "none", "enable_thinking": False},
    ),
    "effort against kwargs": Wish(
        [USER],
        {"reasoning_effort": "high", "chat_template_kwargs": {"enable_thinking": False}},
        variables={"reasoning_effort": "high", "enable_thinking": False},
    ),
    "kwargs without a value": Wish([USER], {"chat_template_kwargs": {"enable_thinking": None}}),
    "kwargs that are others' fields": Wish(
        [USER], {"chat_template_kwargs": {"messages": [], "add_generation_prompt": False}}
    ),
    "documents": Wish([USER], {"documents": DOCUMENTS}, variables={"documents": DOCUMENTS}),
    "documents in kwargs": Wish(
        [USER],
        {"chat_template_kwargs": {"documents": DOCUMENTS}},
        variables={"documents": DOCUMENTS},
    ),
    "arguments in their order": Wish(
        [USER, called(ARGUMENTS), RESULT],
        seen=[USER, called(json.loads(ARGUMENTS)), RESULT],
    ),
    "arguments that are none": Wish(
        [USER, called("not json"), RESULT], seen=[USER, called({}), RESULT]
    ),
    "tools in another order": Wish(
        [SYSTEM, USER], {"tools": [SENT_TOOL]}, variables={"tools": [SEEN_TOOL]}
    ),
    "tools that must not be called": Wish(
        [USER], {"tools": [SENT_TOOL], "tool_choice": "none"}, variables={"tools": [SEEN_TOOL]}
    ),
    "reasoning": Wish(
        [USER, said("assistant", "Nothing.", reasoning_content="Hm.\n"), USER],
        seen=[
            USER,
            said("assistant", "Nothing.", reasoning="Hm.\n", reasoning_content="Hm.\n"),
            USER,
        ],
    ),
    "reasoning by its other name": Wish(
        [USER, called("{}") | {"reasoning": "Hm."}, RESULT],
        seen=[USER, called({}) | {"reasoning": "Hm.", "reasoning_content": "Hm."}, RESULT],
    ),
    "a name": Wish([USER | {"name": "Ada"}]),
    "no content": Wish(
        [USER, said("assistant", ""), USER], seen=[USER, said("assistant", ""), USER]
    ),
    "special text": Wish([said("user", "<s> <|im_end|> <|eot_id|> <bos> <｜User｜> </s>")]),
    "odd text": Wish(
        [said("user", "\0 \u200d e\u0301 \ufeff \U000e0041 \u2028 \r\n\t "), ANSWER, USER]
    ),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("wish", WISHES.values(), ids=WISHES.keys())
def test_ids_are_those_of_transformers(name: str, wish: Wish) -> None:
    for generate in (True, False):
        body = {"messages": wish.messages, **wish.body, "add_generation_prompt": generate}
        expected = by_transformers(
            name, wish.seen or wish.messages, add_generation_prompt=generate, **wish.variables
        )
        assert by_us(name, body) == expected


PARTS: Mapping[str, list[Any]] = {
    "one": [part("What's new?")],
    "several": [part("What's  "), part(" new\n"), part("in Zürich?")],
    "strings": ["What's", part("new?")],
    "of other kinds": [part("a", "input_text"), part("b", "output_text")],
    "a refusal": [{"type": "refusal", "refusal": "No."}, part("a")],
    "a thought": [{"type": "thinking", "thinking": "Hm."}, part("a")],
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("parts", PARTS.values(), ids=PARTS.keys())
def test_parts_are_what_the_template_wants(name: str, parts: list[Any]) -> None:
    found = [p if isinstance(p, str) else next(p[k] for k in p if k != "type") for p in parts]
    seen: Any = [part(text) for text in found] if name in TAKES_PARTS else "\n".join(found)
    messages = [SYSTEM, {"role": "user", "content": parts}, ANSWER, USER]
    expected = by_transformers(
        name, [SYSTEM, {"role": "user", "content": seen}, ANSWER, USER], add_generation_prompt=True
    )
    assert expected is not None
    assert by_us(name, {"messages": messages}) == expected


@cache
def trusting(name: str) -> Renderer:
    directory = TINY if name == "tiny" else npm_models.directory(name)
    return Renderer.load(directory, trust_request_template=True, prove=False)


OWN = (
    "{{ bos_token }}{% for m in messages %}[{{ m.role }}] {{ m.content | trim }}\n{% endfor %}"
    "{% for d in documents or [] %}{{ d | tojson }}{% endfor %}{% if tools %}{{ tools | tojson }}"
    "{% endif %}{{ reasoning_effort }}{% if add_generation_prompt %}[assistant] {% endif %}"
)


@pytest.mark.parametrize("name", MODELS)
def test_a_trusted_template_of_the_request_is_used(name: str) -> None:
    body = {
        "messages": [SYSTEM, USER],
        "chat_template": OWN,
        "documents": DOCUMENTS,
        "reasoning_effort": "low",
        "tools": [SENT_TOOL],
    }
    expected = by_transformers(
        name,
        [SYSTEM, USER],
        chat_template=OWN,
        documents=DOCUMENTS,
        reasoning_effort="low",
        tools=[SEEN_TOOL],
        add_generation_prompt=True,
    )
    assert expected is not None
    assert trusting(name).chat(body) == expected
    with pytest.raises(RenderError, match="not trusted"):
        ours(name).chat(body)


# -- lengths and special tokens -------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("limit", [1, 2, 5, 17, 100_000])
def test_prompts_are_cut_as_transformers_cuts_them(name: str, side: str, limit: int) -> None:
    cut = {"truncate_prompt_tokens": limit, "truncation_side": side}
    text = "What's new in Zürich? 你好，世界。 " * 3
    chat_text = ours(name).prompt({"messages": [USER]})
    tokenizer = theirs(name)
    before, tokenizer.truncation_side = tokenizer.truncation_side, side
    try:
        for special in (True, False):
            options = {"truncation": True, "max_length": limit, "add_special_tokens": special}
            expected = tokenizer(text, **options)["input_ids"]
            found = ours(name).completion({"prompt": text, "add_special_tokens": special, **cut})
            assert found == [expected]
        expected = tokenizer(chat_text, truncation=True, max_length=limit, add_special_tokens=False)
        assert ours(name).chat({"messages": [USER], **cut}) == expected["input_ids"]
    finally:
        tokenizer.truncation_side = before


@pytest.mark.parametrize("name", WITH_BOS)
def test_there_is_one_bos_unless_the_request_wants_it_otherwise(name: str) -> None:
    bos = theirs(name).bos_token_id
    renderer = ours(name)
    asked = [
        renderer.completion({"prompt": "Hello"})[0],
        renderer.chat(chat("Hello")),
        renderer.completion({"prompt": "Hello", "add_special_tokens": False})[0],
        renderer.chat(chat("Hello", add_special_tokens=True)),
        renderer.completion({"prompt": "Hello"})[0],
    ]
    assert [ids.count(bos) for ids in asked] == [1, 1, 0, 2, 1]


@pytest.mark.parametrize("name", MODELS)
def test_a_chat_may_ask_for_special_tokens(name: str) -> None:
    text = ours(name).prompt({"messages": [USER]})
    expected = theirs(name)(text, add_special_tokens=True)["input_ids"]
    assert ours(name).chat({"messages": [USER], "add_special_tokens": True}) == expected


# -- nothing is too odd ---------------------------------------------------------------------------

HALF = "a\ud800b"


@pytest.mark.parametrize("name", [*MODELS, "gptoss"])
@pytest.mark.parametrize(
    "body",
    [
        {"prompt": HALF},
        {"prompt": [HALF, "a"]},
        chat(HALF),
        chat({"role": "user", "content": [part(HALF)]}),
        chat(SYSTEM, USER, called(json.dumps({"a": HALF})), RESULT),
        chat("a", tools=[{"type": "function", "function": {"name": "f", "description": HALF}}]),
        chat("a", chat_template_kwargs={"date_string": HALF, "enable_thinking": HALF}),
        chat({"role": HALF, "content": "a"}),
    ],
    ids=ascii,
)
def test_half_a_surrogate_pair_is_refused_or_not_shown(name: str, body: dict[str, Any]) -> None:
    renderer = ours(name)
    try:
        if "prompt" in body:
            renderer.first_completion(body)
        else:
            renderer.chat(body)
    except (RenderError, Unsupported):
        return
    assert "messages" in body, "a prompt is always shown"


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.data())
def test_any_chat_has_the_ids_of_transformers(name: str, data: st.DataObject) -> None:
    turns = data.draw(st.lists(texts(name), min_size=1, max_size=5))
    messages = [said(("user", "assistant")[i % 2], text) for i, text in enumerate(turns)]
    if data.draw(st.booleans()):
        messages.insert(0, said("system", data.draw(texts(name))))
    generate = data.draw(st.booleans())
    # Turn by turn, as a conversation grows: later prompts find the pieces of earlier ones.
    for end in range(1, len(messages) + 1):
        body = {"messages": messages[:end], "add_generation_prompt": generate}
        expected = by_transformers(name, messages[:end], add_generation_prompt=generate)
        assert by_us(name, body) == expected


# -- a model without a chat template --------------------------------------------------------------


def test_without_a_chat_template_completions_have_ids_and_chats_have_none() -> None:
    text = "What's new in Zürich? <|start|>"
    expected = theirs("gptoss")(text)["input_ids"]
    assert ours("gptoss").completion({"prompt": text}) == [expected]
    with pytest.raises(Unsupported, match="no chat template"):
        ours("gptoss").chat({"messages": [USER]})
