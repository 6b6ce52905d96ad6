from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.simulator.recordings import lines, samples
from tests.simulator.serving import served

EXACT = ["tokenize-prompt", "tokenize-chat", "tokenize-chat-no-gen", "tokenize-chat-kwargs"]
LORA = "sql-lora"


def without_id(answer: Any) -> Any:
    """Request ids are drawn; all else is fixed."""
    if isinstance(answer, list):
        return [without_id(one) for one in answer]
    return {key: value for key, value in answer.items() if key != "request_id"}


@pytest.mark.parametrize("name", [*EXACT, "detokenize"])
async def test_tokens_are_told_as_recorded(name: str) -> None:
    sample = samples()[name]
    async with served(num_blocks=129, max_model_len=1024) as client:
        assert await client.ok(sample.path, sample.body) == sample.response


@pytest.mark.parametrize("name", ["render-chat", "render-chat-lora", "render-completion"])
async def test_a_prompt_is_rendered_as_recorded(name: str) -> None:
    sample = samples()[name]
    async with served(adapters=(LORA,)) as client:
        answer = await client.ok(sample.path, sample.body)
    assert msgspec.json.encode(without_id(answer)) == msgspec.json.encode(
        without_id(sample.response)
    )


async def test_rendered_prompts_of_one_call_are_numbered() -> None:
    body = {"prompt": ["a", "b"], "request_id": "r"}
    async with served() as client:
        answer = await client.ok("/v1/completions/render", body)
    assert [one["request_id"] for one in answer] == ["cmpl-r-0", "cmpl-r-1"]


async def test_chats_are_rendered_to_the_ids_of_the_real_engine() -> None:
    cases = [line for line in lines("render_samples.jsonl") if line["status"] == 200]
    chats = [case for case in cases if case["path"] == "/v1/chat/completions"]
    async with served() as client:
        for case in chats:
            answer = await client.ok("/v1/chat/completions/render", case["body"])
            assert [answer["token_ids"]] == case["token_ids"], case["name"]
    assert len(chats) > 30


@pytest.mark.parametrize("path", ["/v1/completions/render", "/v1/completions"])
async def test_a_prompt_that_is_too_long_is_refused_alike(path: str) -> None:
    async with served(num_blocks=9) as client:
        status, answer = await client.post(path, {"prompt": [5] * 500})
    assert status == 400
    assert "maximum context length is 144 tokens" in answer["error"]["message"]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/tokenize", {}),
        ("/tokenize", {"prompt": 5}),
        ("/tokenize", {"prompt": "\ud800"}),
        ("/tokenize", {"messages": []}),
        ("/detokenize", {}),
        ("/detokenize", {"tokens": ["a"]}),
        ("/detokenize", {"tokens": [-1]}),
        ("/detokenize", {"tokens": [True]}),
        ("/v1/completions/render", {}),
        ("/v1/chat/completions/render", {}),
    ],
)
async def test_a_body_that_makes_no_sense_is_refused(path: str, body: dict[str, Any]) -> None:
    async with served() as client:
        status, answer = await client.post(path, body)
    assert status == 400
    assert answer["error"]["code"] == 400


@pytest.mark.parametrize("path", ["/tokenize", "/detokenize", "/v1/completions/render"])
async def test_an_unknown_model_is_not_found(path: str) -> None:
    async with served() as client:
        status, _ = await client.post(path, {"model": "nope", "prompt": "a", "tokens": [5]})
    assert status == 404


async def test_special_tokens_are_part_of_detokenized_text() -> None:
    async with served() as client:
        assert await client.ok("/detokenize", {"tokens": [1, 2]}) == {
            "prompt": "<|im_start|><|im_end|>"
        }
