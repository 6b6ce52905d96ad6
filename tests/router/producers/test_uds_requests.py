"""Bodies in the words of llm-d's contract: nothing lost on the way, or no request at all."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from router.producers.uds_requests import UdsRequest, Unspeakable, has_parts, uds_request
from router.request.types import Kind
from tests.support import make
from tests.tokenizer_sidecar.disk import TINY, captured, chat
from tokenizer_sidecar import llmd_bodies
from tokenizer_sidecar.pb import tokenization_pb2 as pb
from tokenizer_sidecar.render import Renderer

tiny = Renderer.load(TINY)


def asked(body: object, raw: bytes | None = None) -> UdsRequest:
    kind = Kind.CHAT if isinstance(body, dict) and "messages" in body else Kind.COMPLETION
    encoded = json.dumps(body).encode() if raw is None else raw
    return uds_request(make.request(kind=kind, body=encoded), "m")


def asked_chat(body: object) -> pb.RenderChatCompletionRequest:
    request = asked(body)
    assert isinstance(request, pb.RenderChatCompletionRequest)
    return request


def test_a_completion_is_its_first_prompt() -> None:
    assert asked({"prompt": "hi"}) == pb.RenderCompletionRequest(model_name="m", prompt="hi")
    assert asked({"prompt": ["a", "b"]}) == pb.RenderCompletionRequest(model_name="m", prompt="a")


def test_a_completion_without_special_tokens_is_plain_text() -> None:
    plain = {"prompt": "hi", "add_special_tokens": False}
    assert asked(plain) == pb.TokenizeRequest(model_name="m", input="hi")
    assert isinstance(asked({**plain, "add_special_tokens": True}), pb.RenderCompletionRequest)


CALL = {
    "id": "c",
    "type": "function",
    "function": {"name": "f", "arguments": '{"z": 1, "a": "\\u00df"}'},
}
TOOL = {
    "type": "function",
    "function": {"name": "f", "parameters": {"properties": {"z": {}, "a": {"default": 1.0}}}},
}
PARTS = {"role": "user", "content": [{"type": "text", "text": "x"}, "y"]}

BODIES: dict[str, dict[str, Any]] = {
    "plain": chat("Hello"),
    "system": chat({"role": "system", "content": "s"}, "Hello"),
    "parts": chat(PARTS),
    "empty content": chat("Hello", {"role": "assistant", "content": ""}, "b"),
    "tools": chat("Hello", tools=[TOOL]),
    "no tools": chat("Hello", tools=None),
    "calls": chat(
        "Hello",
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "content": "21"},
    ),
    "no generation prompt": chat("Hello", add_generation_prompt=False),
    "going on": chat(
        "Hello",
        {"role": "assistant", "content": "Well, "},
        add_generation_prompt=False,
        continue_final_message=True,
    ),
    "kwargs": chat("Hello", chat_template_kwargs={"enable_thinking": False, "z": [1.0, None]}),
    "effort": chat("Hello", reasoning_effort="none"),
    "effort and kwargs": chat(
        "Hello",
        reasoning_effort="low",
        chat_template_kwargs={"enable_thinking": False, "reasoning_effort": "high"},
    ),
    "documents": chat("Hello", documents=[{"title": "T", "text": "x"}]),
}


@pytest.mark.parametrize("body", BODIES.values(), ids=BODIES.keys())
def test_the_other_end_renders_what_the_body_itself_would_give(body: dict[str, Any]) -> None:
    assert tiny.prompt(llmd_bodies.chat(asked_chat(body))) == tiny.prompt(body)


def test_every_chat_that_an_engine_rendered_survives_the_way() -> None:
    said, survived = 0, 0
    for sample in captured("render_samples.jsonl"):
        if sample["status"] != 200 or sample["path"] != "/v1/chat/completions":
            continue
        try:
            request = asked_chat(sample["body"])
        except Unspeakable:
            said += 1
            continue
        survived += 1
        assert tiny.chat(llmd_bodies.chat(request)) == sample["token_ids"][0], sample["name"]
    assert survived > 20
    assert said < 5


def test_keys_keep_the_order_of_the_client() -> None:
    request = asked_chat(chat("Hello", tools=[TOOL], chat_template_kwargs={"z": 1, "a": 2}))
    assert request.tools_json == json.dumps([TOOL])
    assert request.chat_template_kwargs == '{"z":1,"a":2}'


def test_a_template_s_arguments_hold_what_has_no_field_of_its_own() -> None:
    body = chat(
        "Hello", documents=[{"t": 1}], reasoning_effort="low", chat_template_kwargs={"k": 1}
    )
    assert msgspec.json.decode(asked_chat(body).chat_template_kwargs) == {
        "k": 1,
        "documents": [{"t": 1}],
        "reasoning_effort": "low",
        "enable_thinking": True,
    }


def test_images_are_sent_on() -> None:
    image = {"type": "image_url", "image_url": {"url": "data:,", "detail": "low"}}
    request = asked_chat(chat({"role": "user", "content": [image]}))
    (part,) = request.messages[0].content_parts
    assert (part.type, part.image_url.url) == ("image_url", "data:,")
    assert has_parts(request)
    assert not has_parts(asked_chat(chat("Hello")))
    assert not has_parts(asked({"prompt": "hi"}))


def test_the_request_s_own_template_is_sent_on() -> None:
    assert asked_chat(chat("Hello", chat_template="x")).chat_template == "x"


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": "a", "truncate_prompt_tokens": 3},
        {"prompt": "a", "suffix": "b"},
        {"prompt": "a", "prompt_embeds": "AA=="},
        chat("a", truncate_prompt_tokens=3),
        chat("a", add_special_tokens=True),
        chat({"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}),
        chat({"role": "user", "content": [{"type": "video_url", "video_url": {"url": ""}}]}),
    ],
    ids=str,
)
def test_what_the_contract_cannot_say_is_not_asked(body: dict[str, Any]) -> None:
    with pytest.raises(Unspeakable):
        asked(body)


def test_a_limit_that_is_none_is_no_limit() -> None:
    assert asked({"prompt": "a", "truncate_prompt_tokens": -1}) == asked({"prompt": "a"})


@pytest.mark.parametrize(
    "body",
    [
        {"prompt": {}},
        chat("a", add_generation_prompt="yes"),
        chat("a", documents="T"),
        {"messages": [{"content": "no role"}]},
    ],
    ids=str,
)
def test_a_body_that_no_engine_takes_is_an_error(body: dict[str, Any]) -> None:
    with pytest.raises(msgspec.DecodeError):
        asked(body)
