"""Bodies of a wanted length."""

from __future__ import annotations

import json

import pytest

from bench import prompts
from bench.long_prompts import cold, warm
from simulator.config import BUNDLED_MODEL_DIR
from tokenizer_sidecar.render import Renderer

RENDERER = Renderer.load(BUNDLED_MODEL_DIR)


@pytest.mark.parametrize("tokens", [200, 5_000])
def test_a_prompt_has_about_the_tokens_asked_for(tokens: int) -> None:
    for seed in range(5):
        body = json.loads(prompts.completion("tiny", tokens, seed))
        assert len(RENDERER.first_completion(body)) == pytest.approx(tokens, rel=0.15)


def test_prompts_of_two_seeds_share_no_block_and_of_one_all() -> None:
    firsts = {prompts.text(200, seed)[:12] for seed in range(500)}
    assert len(firsts) == 500
    assert prompts.text(200, 1) == prompts.text(200, 1)


def test_fields_that_the_engine_reads_come_before_the_prompt() -> None:
    body = prompts.completion("tiny", 1000, 1, stream=True, max_tokens=5)
    assert body.startswith(b'{"model":"tiny","stream":true,"max_tokens":5,"prompt":')


def test_warm_prompts_share_95_percent_and_cold_ones_nothing() -> None:
    one, other = (RENDERER.chat(json.loads(warm(20_000, seed))) for seed in (1, 2))
    shared = next(i for i, pair in enumerate(zip(one, other, strict=False)) if len(set(pair)) > 1)
    assert shared / len(one) == pytest.approx(0.95, abs=0.02)
    first, second = (json.loads(cold(2_000, seed))["messages"] for seed in (1, 2))
    assert not {m["content"] for m in first} & {m["content"] for m in second}
