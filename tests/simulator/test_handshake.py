"""Two engines over HTTP: one computes a prompt, the other answers it."""

from __future__ import annotations

from typing import Any

import pytest

from tests.simulator.serving import cached, served
from tests.support.ports import free_port

PROMPT = list(range(100, 165))
ASK = {"do_remote_decode": True}


async def test_the_other_engine_answers_alike_and_holds_the_prompt_then() -> None:
    async with served(kv_transfer=True) as prefill, served(kv_transfer=True) as decode:
        await prefill.complete(PROMPT[:32], max_tokens=1)
        asked = await prefill.complete(PROMPT, max_tokens=1, kv_transfer_params=ASK)
        params = asked["kv_transfer_params"]
        assert (params["remote_num_tokens"], cached(asked)) == (65, 32)
        assert len(params["remote_block_ids"][0]) == 5
        answer = await decode.complete(PROMPT, max_tokens=6, kv_transfer_params=params)
        assert answer["kv_transfer_params"] is None
        # The decode engine tells what the prefill engine had.
        assert cached(answer) == 32
        alone = await prefill.complete(PROMPT, max_tokens=6)
        assert answer["choices"][0]["text"] == alone["choices"][0]["text"]
        assert cached(await decode.complete(PROMPT, max_tokens=1)) == 64


async def test_a_stream_hands_nothing_over() -> None:
    async with served(kv_transfer=True) as engine:
        body = {"prompt": PROMPT, "max_tokens": 1, "stream": True, "kv_transfer_params": ASK}
        text = await engine.ok("/v1/completions", body)
    assert "kv_transfer_params" not in text


async def test_without_a_connector_nothing_is_handed_over_or_fetched() -> None:
    async with served() as engine:
        answer = await engine.complete(PROMPT, max_tokens=1, kv_transfer_params=ASK)
        assert answer["kv_transfer_params"] is None
        await engine.complete(PROMPT, max_tokens=1, kv_transfer_params={"do_remote_prefill": True})


@pytest.mark.parametrize(
    "change",
    [
        {"remote_engine_id": "another"},
        {"remote_request_id": "another"},
        {"remote_port": free_port()},
        {"remote_host": None},
    ],
    ids=["engine", "request", "port", "incomplete"],
)
async def test_what_cannot_be_fetched_is_a_server_error(change: dict[str, Any]) -> None:
    async with served(kv_transfer=True) as prefill, served(kv_transfer=True) as decode:
        asked = await prefill.complete(PROMPT, max_tokens=1, kv_transfer_params=ASK)
        params = asked["kv_transfer_params"] | change
        status, body = await decode.post(
            "/v1/completions", {"prompt": PROMPT, "kv_transfer_params": params}
        )
        assert (status, body["error"]["message"]) == (500, "Internal server error")
        assert await decode.complete(PROMPT, max_tokens=1)
