from __future__ import annotations

from typing import Any

import pytest

from simulator.config import BUNDLED_MODEL_DIR
from simulator.errors import ApiError
from simulator.hashing import Hasher, Identity
from simulator.openai import Kind, parse_ask
from simulator.prepare import Preparer, Prompt
from tests.simulator.recordings import samples
from tokenizer_sidecar.render import Renderer

HASHER = Hasher(4)
PREPARER = Preparer(
    Renderer.load(BUNDLED_MODEL_DIR), HASHER, "tiny", context_tokens=1024, token_limit=1024
)


def prompts(kind: Kind, body: dict[str, Any]) -> list[Prompt]:
    return PREPARER.prompts(kind, body, parse_ask(body, kind), Identity())


@pytest.mark.parametrize(
    ("prompt", "token_ids"),
    [
        ("import os", [[764, 630]]),
        (["hello world", "import os"], [[287, 82, 348, 1205, 1392], [764, 630]]),
        ([5, 6, 7], [[5, 6, 7]]),
        ([[5, 6], [7]], [[5, 6], [7]]),
    ],
)
def test_a_completion_takes_four_shapes_of_prompt(
    prompt: object, token_ids: list[list[int]]
) -> None:
    got = prompts("completion", {"prompt": prompt})
    assert [list(one.token_ids) for one in got] == token_ids


def test_a_chat_is_rendered_by_the_template() -> None:
    sample = samples()["render-chat"]
    (prompt,) = prompts("chat", sample.body)
    assert list(prompt.token_ids) == sample.response["token_ids"]


def test_forwarded_ids_spare_the_rendering_of_a_chat() -> None:
    body = {"messages": [{"role": "user", "content": "x"}]}
    (prompt,) = prompts("chat", {**body, "kv_transfer_params": {"prompt_token_ids": [8, 9]}})
    assert list(prompt.token_ids) == [8, 9]


def test_a_prompt_comes_with_the_hashes_of_its_full_blocks() -> None:
    (prompt,) = prompts("completion", {"prompt": list(range(10))})
    assert prompt.digests == HASHER.chain(range(10), Identity())


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("err-too-long", "completion"),
        ("err-token-id-out-of-vocab", "completion"),
        ("err-image-for-text-model", "chat"),
    ],
)
def test_a_prompt_that_the_engine_cannot_take_is_refused_as_recorded(name: str, kind: Kind) -> None:
    sample = samples()[name]
    with pytest.raises(ApiError) as refused:
        prompts(kind, sample.body)
    assert (refused.value.status, refused.value.body()) == (sample.status, sample.response)


def test_a_chat_that_cannot_be_rendered_is_refused() -> None:
    with pytest.raises(ApiError) as refused:
        prompts("chat", samples()["err-continue-and-generation-prompt"].body)
    assert refused.value.status == 400


@pytest.mark.parametrize("prompt", [[[5], []], [-1]])
def test_a_prompt_without_tokens_or_with_impossible_ones_is_refused(prompt: object) -> None:
    with pytest.raises(ApiError):
        prompts("completion", {"prompt": prompt})


def test_the_longest_prompt_leaves_room_for_one_token() -> None:
    assert prompts("completion", {"prompt": [5] * 1023})
    with pytest.raises(ApiError, match="contains 1024 input tokens"):
        prompts("completion", {"prompt": [5] * 1024})
