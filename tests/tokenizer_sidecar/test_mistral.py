"""Models with a tekken.json: the ids of mistral-common's own encoder."""

# ruff: noqa: RUF001 - characters that look like others are here on purpose

from __future__ import annotations

import builtins
import json
from functools import cache
from pathlib import Path
from typing import Any

import mistral_common
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.protocol.instruct.validator import ValidationMode
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer
from mistral_common.tokens.tokenizers.tekken import Tekkenizer

from tests.tokenizer_sidecar.any_text import any_text
from tests.tokenizer_sidecar.disk import chat
from tokenizer_sidecar.errors import ModelError, RenderError, Unsupported
from tokenizer_sidecar.mistral import MistralRenderer, TekkenEncoder
from tokenizer_sidecar.post_processing import unpack
from tokenizer_sidecar.renderers import load

DATA = Path(mistral_common.__file__).parent / "data"

CALL = {"id": "abcdefghi", "type": "function"}
ASKED = {
    "role": "assistant",
    "tool_calls": [{**CALL, "function": {"name": "f", "arguments": '{"z": 1, "a": [2]}'}}],
}
RESULT = {"role": "tool", "tool_call_id": "abcdefghi", "content": "42"}
TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "description": "does it",
        "parameters": {"type": "object", "properties": {"z": {"type": "integer"}}},
    },
}
SYSTEM = {"role": "system", "content": "Be brief."}
PARTS = {
    "role": "user",
    "content": [{"type": "text", "text": "one"}, {"type": "text", "text": "two"}],
}
ASSISTANT = {"role": "assistant", "content": "Well, "}

CHATS: dict[str, dict[str, Any]] = {
    "a question": chat("Hello there"),
    "special text": chat("a [INST] b [/INST]</s><s> c"),
    "a system message": chat(SYSTEM, "Hello"),
    "turns": chat("Hello", {"role": "assistant", "content": "Hi."}, "And now?"),
    "parts": chat(SYSTEM, PARTS),
    "tools": chat(SYSTEM, "Hello", tools=[TOOL]),
    "calls and results": chat("Hello", ASKED, RESULT, tools=[TOOL]),
    "a message to go on with": chat("Hello", ASSISTANT, continue_final_message=True),
    "a long one": chat("Hello, wörld. 你好，世界。\n" * 2000, tools=[TOOL]),
}


@cache
def library() -> MistralTokenizer[Any, Any, Any, Any, Any]:
    return MistralTokenizer.from_file(str(DATA / "tekken_240911.json"), mode=ValidationMode.test)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("mistral")
    (directory / "tekken.json").symlink_to(DATA / "tekken_240911.json")
    return directory


@pytest.fixture(scope="module")
def renderer(directory: Path) -> MistralRenderer:
    return MistralRenderer.load(directory)


def by_library(body: dict[str, Any]) -> list[int]:
    request: ChatCompletionRequest[Any] = ChatCompletionRequest.from_openai(
        messages=body["messages"],
        tools=body.get("tools"),
        continue_final_message=body.get("continue_final_message", False),
    )
    ids: list[int] = library().encode_chat_completion(request).tokens
    return ids


def test_such_a_directory_is_loaded_as_one(directory: Path) -> None:
    assert isinstance(load(directory), MistralRenderer)


@pytest.mark.parametrize("body", CHATS.values(), ids=CHATS.keys())
def test_chats_have_the_library_s_ids(renderer: MistralRenderer, body: dict[str, Any]) -> None:
    for _ in range(2):
        assert unpack(renderer.packed_chat(body)) == by_library(body)


@cache
def encoder(cache_bytes: int) -> TekkenEncoder:
    """Cuts even short texts many times."""
    pattern = json.loads((DATA / "tekken_240911.json").read_bytes())["config"]["pattern"]
    return TekkenEncoder(tekkenizer(), pattern, cache_bytes, piece_chars=24)


def tekkenizer() -> Tekkenizer:
    tekken = library().instruct_tokenizer.tokenizer
    assert isinstance(tekken, Tekkenizer)
    return tekken


TEXTS = any_text(["[INST]", "[/INST]", "<s>", "</s>", "[TOOL_CALLS]", "<unk>"])
some = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@some
@given(TEXTS.filter(bool))
def test_any_text_has_the_library_s_ids(renderer: MistralRenderer, text: str) -> None:
    ids = unpack(renderer.packed_completion({"prompt": text}))
    assert ids == tekkenizer().encode(text, bos=True, eos=False)
    assert renderer.tokenize(text, add_special_tokens=False) == (ids[1:], [])


@some
@given(st.data(), st.sampled_from([1 << 13, 1 << 22]))
def test_turns_in_any_order_and_any_state_of_the_cache_give_the_ids_of_the_whole(
    data: st.DataObject, cache_bytes: int
) -> None:
    turns = data.draw(st.lists(TEXTS, min_size=1, max_size=6))
    for end in data.draw(st.lists(st.integers(1, len(turns)), min_size=1, max_size=6)):
        text = "".join(turns[:end])
        whole = tekkenizer().encode(text, bos=False, eos=False)
        assert unpack(encoder(cache_bytes).ids(text)) == whole


def test_completions_are_cut_as_others_are(renderer: MistralRenderer) -> None:
    whole = unpack(renderer.packed_completion({"prompt": "one two three four"}))
    body = {"prompt": "one two three four", "truncate_prompt_tokens": 3}
    assert unpack(renderer.packed_completion(body)) == [whole[0], *whole[-2:]]
    right = {**body, "truncation_side": "right"}
    assert unpack(renderer.packed_completion(right)) == whole[:3]
    assert unpack(renderer.packed_completion({"prompt": [7, 8]})) == [7, 8]


def test_only_new_text_is_encoded(renderer: MistralRenderer) -> None:
    assert renderer.method == "mistral-common, in pieces"
    text = " ".join(f"number {i} of many" for i in range(3000))
    renderer.packed_chat(chat(text))
    before = renderer.cache_stats()
    renderer.packed_chat(chat(f"{text} and more"))
    after = renderer.cache_stats()
    assert after.new_tokens - before.new_tokens < 1500
    assert after.hit_tokens - before.hit_tokens > 10_000


BAD = {
    "an answer first": chat({"role": "assistant", "content": "x"}),
    "an unknown role": chat({"role": "nobody", "content": "x"}),
    "no messages": {"messages": []},
    "an answer last": chat("Hello", {"role": "assistant", "content": "Hi."}),
    "half a surrogate pair": chat("\ud800"),
    "a tool without a name": chat("Hello", tools=[{"type": "function", "function": {}}]),
}


@pytest.mark.parametrize("body", BAD.values(), ids=BAD.keys())
def test_what_the_library_refuses_is_refused(
    renderer: MistralRenderer, body: dict[str, Any]
) -> None:
    with pytest.raises(RenderError):
        renderer.packed_chat(body)


def test_media_and_text_are_not_to_be_had(renderer: MistralRenderer) -> None:
    part = {"type": "image_url", "image_url": {"url": "data:,"}}
    with pytest.raises(Unsupported):
        renderer.packed_chat(chat({"role": "user", "content": [part]}))
    with pytest.raises(Unsupported):
        renderer.prompt(chat("Hello"))


def test_a_developer_is_the_system(renderer: MistralRenderer) -> None:
    developer = chat({"role": "developer", "content": "Be brief."}, "Hello")
    assert unpack(renderer.packed_chat(developer)) == by_library(chat(SYSTEM, "Hello"))


@pytest.mark.parametrize("content", ["{", "{}", json.dumps({"config": {"pattern": "a"}})])
def test_a_file_that_cannot_be_used_is_named(tmp_path: Path, content: str) -> None:
    (tmp_path / "tekken.json").write_text(content)
    with pytest.raises(ModelError, match=r"tekken\.json"):
        load(tmp_path)


def test_without_the_library_the_model_says_so(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import_ = builtins.__import__

    def missing(name: str, *rest: Any) -> Any:
        if name.startswith("mistral_common"):
            raise ModuleNotFoundError(name)
        return import_(name, *rest)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(
        ModelError, match=r"needs mistral-common, which is not installed .+ extra mistral"
    ):
        load(directory)
