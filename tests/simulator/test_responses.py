from __future__ import annotations

from collections import defaultdict
from typing import Any

import msgspec
import pytest

from simulator.openai import Ask, Kind
from simulator.responses import (
    DONE,
    Choice,
    Head,
    closing_usage,
    complete,
    delta,
    opening,
    rendered,
    sse,
)
from tests.simulator.recordings import samples, sse_events

USAGE: dict[str, Any] = {"include_usage": True}

STREAMS: dict[str, tuple[Kind, dict[str, Any]]] = {
    "sse_chat_usage": ("chat", {"stream_options": USAGE}),
    "sse_chat_usage_again_cached": ("chat", {"stream_options": USAGE}),
    "sse_chat_no_usage": ("chat", {}),
    "sse_chat_continuous_usage": (
        "chat",
        {"stream_options": USAGE | {"continuous_usage_stats": True}},
    ),
    "sse_chat_token_ids": ("chat", {"stream_options": USAGE, "return_token_ids": True}),
    "sse_completion_usage": ("completion", {"stream_options": USAGE}),
    "sse_completion_two_prompts": ("completion", {"stream_options": USAGE}),
}


def ask_of(fields: dict[str, Any]) -> Ask:
    return msgspec.convert(fields, Ask, strict=False)


def head_of(kind: Kind, answer: dict[str, Any], fields: dict[str, Any]) -> Head:
    return Head(kind, answer["id"], answer["created"], answer["model"], ask_of(fields))


def restream(kind: Kind, fields: dict[str, Any], recorded: list[bytes]) -> list[bytes]:
    """What we would stream, had our engine sampled what the real one did."""
    chunks = [msgspec.json.decode(event.removeprefix(b"data: ")) for event in recorded[:-1]]
    head = head_of(kind, chunks[0], fields)
    usage = next((one["usage"] for one in chunks if not one["choices"]), None)
    prompts = defaultdict[int, list[int]](list)
    texts = [one["choices"][0] for one in chunks if one["choices"]]
    texts = [one for one in texts if one.get("delta", {}).get("role") is None]
    count = len({one["index"] for one in texts})
    for index in range(count):
        # The streams without usage are of the same prompt as sse_chat_usage: 14 tokens.
        prompts[index] = [0] * ((usage["prompt_tokens"] if usage else 14) // count)
        prompts[index] = chunks[0].get("prompt_token_ids") or prompts[index]
    cached = usage["prompt_tokens_details"]["cached_tokens"] if usage else 0
    choices = [Choice(i, prompts[i], token_ids=[], cached_tokens=cached) for i in range(count)]
    events = [sse(opening(head, choice)) for choice in choices] if kind == "chat" else []
    for shown in texts:
        choice = choices[shown["index"]]
        text = shown["delta"]["content"] if kind == "chat" else shown["text"]
        choice.token_ids.append((shown["token_ids"] or [0])[0])
        choice.finish_reason = shown["finish_reason"]
        events.append(sse(delta(head, choice, text, shown["token_ids"] or [])))
        choice.streamed = True
    return [*events, *([sse(closing_usage(head, choices))] if usage else []), DONE]


@pytest.mark.parametrize("name", STREAMS)
def test_a_stream_equals_the_recorded_one_byte_for_byte(name: str) -> None:
    kind, fields = STREAMS[name]
    recorded = sse_events(name)
    assert restream(kind, fields, recorded) == recorded


def test_a_completion_stream_tells_the_prompts_ids_once_if_asked() -> None:
    head = Head("completion", "cmpl-1", 0, "tiny", Ask(return_token_ids=True))
    choice = Choice(0, [5, 6], token_ids=[7])
    assert delta(head, choice, "a", [7])["choices"][0]["prompt_token_ids"] == [5, 6]
    choice.streamed = True
    assert delta(head, choice, "a", [7])["choices"][0]["prompt_token_ids"] is None


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("chat-ok", "chat"),
        ("chat-request-id", "chat"),
        ("completion-request-id", "completion"),
        ("err-too-long-with-max-tokens", "completion"),
    ],
)
def test_a_body_equals_the_recorded_one(name: str, kind: Kind) -> None:
    sample = samples()[name]
    answer = sample.response
    (shown,) = answer["choices"]
    choice = Choice(
        index=0,
        prompt_token_ids=[0] * answer["usage"]["prompt_tokens"],
        token_ids=[0] * answer["usage"]["completion_tokens"],
        text=shown["message"]["content"] if kind == "chat" else shown["text"],
        finish_reason=shown["finish_reason"],
        stop_reason=shown["stop_reason"],
        cached_tokens=answer["usage"]["prompt_tokens_details"]["cached_tokens"],
    )
    body = complete(head_of(kind, answer, sample.body), [choice])
    assert msgspec.json.encode(body) == msgspec.json.encode(answer)


def test_a_prompt_counts_once_however_many_choices_answer_it() -> None:
    head = Head("chat", "chatcmpl-1", 0, "tiny", Ask(n=2))
    choices = [Choice(index, [1, 2, 3], token_ids=[7, 8]) for index in range(2)]
    usage = complete(head, choices)["usage"]
    assert (usage["prompt_tokens"], usage["completion_tokens"], usage["total_tokens"]) == (3, 4, 7)


@pytest.mark.parametrize("name", ["render-chat", "render-chat-lora"])
def test_a_rendered_chat_equals_the_recorded_one(name: str) -> None:
    sample = samples()[name]
    answer = sample.response
    head = Head("chat", answer["request_id"], 0, answer["model"], ask_of(sample.body))
    body = rendered(head, sample.body, answer["request_id"], answer["token_ids"])
    assert msgspec.json.encode(body) == msgspec.json.encode(answer)


def test_rendering_keeps_transfer_parameters_and_the_salt() -> None:
    sample = samples()["render-chat-offsets"]
    answer = sample.response
    head = Head("chat", answer["request_id"], 0, "tiny", ask_of(sample.body))
    body = rendered(head, sample.body, answer["request_id"], answer["token_ids"])
    # Offsets into the text are the one thing that is not simulated.
    assert body == answer | {"token_offsets": None, "sampling_params": body["sampling_params"]}
    assert body["sampling_params"] == answer["sampling_params"] | {"stop": ()}
