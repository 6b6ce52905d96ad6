"""What is said to come before media is how the prompt begins, whatever the engine puts there."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from tests.support import npm_models
from tests.tokenizer_sidecar.disk import TINY, chat
from tokenizer_sidecar.before_media import MARK, before_media
from tokenizer_sidecar.chat_template import ChatTemplate
from tokenizer_sidecar.errors import RenderError, Unsupported
from tokenizer_sidecar.post_processing import unpack
from tokenizer_sidecar.render import Renderer

MODELS = ("tiny", "qwen3", "llama3_1", "deepseek_v3", "gemma3")

IMAGE = {"type": "image_url", "image_url": {"url": "data:,"}}
TEXT = {"type": "text", "text": "What is that?"}
SYSTEM = {"role": "system", "content": "Be brief. " * 30}
ANSWER = {"role": "assistant", "content": "A cat."}
TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {}}}

PLACEHOLDERS = ("<|image|>\n", "<start_of_image>", "<image>\n\n")
"""What engines put in an item's place, before the message's text."""

CHATS: dict[str, dict[str, Any]] = {
    "at once": chat({"role": "user", "content": [IMAGE, TEXT]}),
    "text first": chat({"role": "user", "content": [TEXT, IMAGE]}),
    "system": chat(SYSTEM, {"role": "user", "content": [TEXT, IMAGE]}),
    "tools": chat(SYSTEM, {"role": "user", "content": [TEXT, IMAGE]}, tools=[TOOL]),
    "later": chat(SYSTEM, "Hello", ANSWER, {"role": "user", "content": [TEXT, IMAGE]}),
    "several": chat(
        SYSTEM,
        {"role": "user", "content": [TEXT, IMAGE]},
        ANSWER,
        {"role": "user", "content": [IMAGE, TEXT]},
        {"role": "assistant", "content": "Another cat."},
        {"role": "user", "content": [IMAGE]},
    ),
}


@cache
def renderer(name: str) -> Renderer:
    return Renderer.load(TINY if name == "tiny" else npm_models.directory(name))


def as_text(message: dict[str, Any], placeholder: str) -> dict[str, Any]:
    """The message as an engine renders it: placeholders first, then the text."""
    if isinstance(message["content"], str):
        return message
    texts = [part["text"] for part in message["content"] if "text" in part]
    return {**message, "content": placeholder + "\n".join(texts)}


@pytest.mark.parametrize("placeholder", PLACEHOLDERS, ids=repr)
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("body", CHATS.values(), ids=CHATS.keys())
def test_the_prompt_begins_so(name: str, body: dict[str, Any], placeholder: str) -> None:
    found = unpack(before_media(renderer(name), body))
    messages = [as_text(message, placeholder) for message in body["messages"]]
    whole = renderer(name).chat({**body, "messages": messages})
    assert whole[: len(found)] == found
    first = next(i for i, m in enumerate(body["messages"]) if not isinstance(m["content"], str))
    before = [m["content"] for m in body["messages"][:first]]
    text = renderer(name).encoder.decode(found)
    assert all(content.strip() in text for content in before)
    assert TEXT["text"] not in text


def test_a_client_that_writes_the_mark_is_not_taken_in() -> None:
    body = chat(f"Hello {MARK}", ANSWER, {"role": "user", "content": [IMAGE]})
    with pytest.raises(Unsupported, match="just once"):
        before_media(renderer("tiny"), body)


def test_a_template_that_begins_with_the_message_leaves_nothing_before() -> None:
    bare = Renderer(
        renderer("tiny").encoder, ChatTemplate({"default": "{{ messages[0].content }}"}, {})
    )
    assert before_media(bare, chat({"role": "user", "content": [IMAGE]})) == b""


@pytest.mark.parametrize(
    "fields", [{"truncate_prompt_tokens": 5}, {"add_special_tokens": True}], ids=str
)
def test_what_depends_on_the_whole_is_unsupported(fields: dict[str, Any]) -> None:
    with pytest.raises(Unsupported):
        before_media(renderer("tiny"), chat({"role": "user", "content": [IMAGE]}, **fields))


def test_a_template_that_hides_the_message_has_no_beginning() -> None:
    hiding = Renderer(renderer("tiny").encoder, ChatTemplate({"default": "fixed"}, {}))
    with pytest.raises(Unsupported, match="does not show"):
        before_media(hiding, chat({"role": "user", "content": [IMAGE]}))


def test_what_the_engine_refuses_is_refused() -> None:
    for broken in ({"role": "user", "content": 5}, {"role": "user", "content": [{"type": "odd"}]}):
        body = chat({"role": "user", "content": [IMAGE]}, broken)
        with pytest.raises(RenderError):
            before_media(renderer("tiny"), body)
