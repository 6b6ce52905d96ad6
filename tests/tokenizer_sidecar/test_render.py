"""Bodies to ids: recordings of the engine, BOS counts, the shapes of a prompt, cutting."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.tokenizer_sidecar.disk import CAPTURES, TINY, captured, chat, write_model
from tokenizer_sidecar.render import Renderer, RenderError, Unsupported

tiny = Renderer.load(TINY)

SAMPLES = list(captured("render_samples.jsonl"))
SERVED = [
    request
    for path in sorted(CAPTURES.glob("bs16_*.requests.jsonl"))
    for request in captured(path.name)
    if request["status"] == 200 and request.get("prompt_token_ids")
]


def name(sample: dict[str, Any]) -> str:
    return f"{sample['path'].split('/')[2]}-{sample.get('name') or sample['step']}"


def ids(renderer: Renderer, path: str, body: dict[str, Any]) -> list[list[int]]:
    if path == "/v1/chat/completions":
        return [renderer.chat(body)]
    return renderer.completion(body)


@pytest.mark.parametrize("sample", SAMPLES, ids=name)
def test_ids_are_those_the_engine_rendered(sample: dict[str, Any]) -> None:
    if sample["status"] == 200:
        assert ids(tiny, sample["path"], sample["body"]) == sample["token_ids"]
    else:
        with pytest.raises(RenderError):
            ids(tiny, sample["path"], sample["body"])


@pytest.mark.parametrize("request_", SERVED, ids=name)
def test_ids_are_those_the_engine_served(request_: dict[str, Any]) -> None:
    each = request_["body"].get("n", 1)  # the engine reports the prompt once per choice
    assert ids(tiny, request_["path"], request_["body"]) * each == request_["prompt_token_ids"]


def test_the_recordings_are_there() -> None:
    assert [s["status"] for s in SAMPLES].count(200) == 47
    assert len(SAMPLES) == 50
    assert len(SERVED) == 140


def test_the_first_prompt_is_that_of_all() -> None:
    for sample in SAMPLES:
        if sample["path"] == "/v1/completions" and sample["status"] == 200:
            assert tiny.first_completion(sample["body"]) == sample["token_ids"][0]


def test_the_first_prompt_is_encoded_only_if_all_are_valid() -> None:
    with pytest.raises(RenderError):
        tiny.first_completion({"prompt": ["a", [7]]})


def test_bos_appears_as_often_as_the_engine_puts_it(tmp_path: Path) -> None:
    renderer = Renderer.load(write_model(tmp_path))
    bos = renderer.completion({"prompt": "a"})[0][0]
    asked = [
        renderer.completion({"prompt": "hi"})[0],
        renderer.chat(chat("hi")),
        renderer.completion({"prompt": "hi", "add_special_tokens": False})[0],
        renderer.chat(chat("hi", add_special_tokens=True)),
        renderer.completion({"prompt": "hi"})[0],
    ]
    assert [prompt.count(bos) for prompt in asked] == [1, 1, 0, 2, 1]


def test_both_spellings_of_a_surrogate_pair_give_the_same_ids() -> None:
    escaped, raw = json.loads('["\\ud83d\\ude00", "😀"]')
    assert tiny.chat(chat(escaped)) == tiny.chat(chat(raw))


@pytest.mark.parametrize("text", ["\ud800", "\udc00\ud800"], ids=ascii)
def test_half_a_surrogate_pair_is_refused(text: str) -> None:
    with pytest.raises(RenderError):
        tiny.completion({"prompt": text})
    with pytest.raises(RenderError):
        tiny.chat(chat(text))
    arguments = json.dumps({"a": text})
    call = {"type": "function", "function": {"name": "f", "arguments": arguments}}
    with pytest.raises(RenderError):
        tiny.chat(chat("a", {"role": "assistant", "tool_calls": [call]}))


def test_nul_is_text_like_any_other() -> None:
    (prompt,) = tiny.completion({"prompt": "a\0b"})
    assert tiny.encoder.decode(prompt) == "a\0b"


BAD_PROMPTS = {
    "missing": {},
    "null": {"prompt": None},
    "number": {"prompt": 42},
    "empty": {"prompt": ""},
    "empty list": {"prompt": []},
    "object": {"prompt": {"text": "a"}},
    "ids and text": {"prompt": [1, "a"]},
    "text and ids": {"prompt": ["a", 1]},
    "text and null": {"prompt": ["a", None]},
    "fractions": {"prompt": [1.5]},
    "booleans": {"prompt": [True]},
    "negative": {"prompt": [-1]},
    "too large": {"prompt": [2**32]},
    "lists and text": {"prompt": [[1], "a"]},
    "lists of text": {"prompt": [["a"]]},
    "special": {"prompt": "a", "add_special_tokens": 1},
    "side": {"prompt": "a", "truncation_side": "middle"},
    "limit": {"prompt": "a", "truncate_prompt_tokens": -2},
    "suffix": {"prompt": "a", "suffix": ""},
}


@pytest.mark.parametrize("body", BAD_PROMPTS.values(), ids=BAD_PROMPTS.keys())
def test_prompts_of_other_shapes_are_refused(body: dict[str, Any]) -> None:
    with pytest.raises(RenderError):
        tiny.completion(body)


def test_embeddings_are_unsupported() -> None:
    with pytest.raises(Unsupported):
        tiny.completion({"prompt": "a", "prompt_embeds": "AA=="})


def test_empty_prompts_in_a_list_have_no_ids() -> None:
    assert tiny.completion({"prompt": ["", "a"]}) == [[], [71]]
    assert tiny.completion({"prompt": [[], [7]]}) == [[], [7]]


@pytest.mark.parametrize(
    ("fields", "kept"),
    [
        ({"truncate_prompt_tokens": 2}, [3, 4]),
        ({"truncate_prompt_tokens": 2, "truncation_side": "right"}, [1, 2]),
        ({"truncate_prompt_tokens": 0}, []),
        ({"truncate_prompt_tokens": 9}, [1, 2, 3, 4]),
        ({"truncate_prompt_tokens": -1}, [1, 2, 3, 4]),
        ({"truncate_prompt_tokens": None}, [1, 2, 3, 4]),
    ],
    ids=str,
)
def test_token_ids_are_cut_too(fields: dict[str, Any], kept: list[int]) -> None:
    assert tiny.completion({"prompt": [1, 2, 3, 4], **fields}) == [kept]


def test_the_request_s_template_needs_trust() -> None:
    trusting = Renderer.load(TINY, trust_request_template=True)
    body = chat("Hello there", chat_template="{{ messages[0].content }}")
    assert trusting.chat(body) == tiny.completion({"prompt": "Hello there"})[0]
    with pytest.raises(RenderError):
        tiny.chat(body)


def test_a_long_history_and_a_deep_one_are_survived() -> None:
    long = chat(*["a"] * 2000)
    assert len(tiny.chat(long)) > 2000
    deep: Any = "x"
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(RenderError):
        tiny.chat(chat({"role": "user", "content": deep}))


def test_many_threads_rendering_different_bodies_get_what_one_thread_gets() -> None:
    rng = random.Random(3)
    bodies = [
        rng.choice(
            [
                {"prompt": "a b c " * rng.randint(1, 200)},
                chat("x " * rng.randint(1, 500), add_generation_prompt=rng.random() < 0.5),
                chat("y", truncate_prompt_tokens=rng.randint(0, 9)),
            ]
        )
        for _ in range(400)
    ]

    def call(body: dict[str, Any]) -> list[list[int]]:
        return [tiny.chat(body)] if "messages" in body else tiny.completion(body)

    serial = [call(body) for body in bodies]
    with ThreadPoolExecutor(16) as pool:
        assert list(pool.map(call, bodies)) == serial
