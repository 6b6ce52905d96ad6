from __future__ import annotations

from typing import Any

import msgspec
import pytest

from pd_sidecar.connectors.types import Outcome
from tests.pd_sidecar.fakes import (
    DECODED,
    Answer,
    FakeEngine,
    Setup,
    says,
    setup,
    streams,
    usage,
)

BODY = {"prompt": "x", "max_tokens": 8}
WITH_THRESHOLD = {**BODY, "cache_hit_threshold": 0.8}

PREFILLED = says({"usage": usage(16)})
STOPPED = {"choices": [{"text": "", "finish_reason": "cache_threshold"}]}
STOPPED_STREAM = (
    b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\n\n',
    b"data: " + msgspec.json.encode(STOPPED) + b"\n\n",
    b"data: [DONE]\n\n",
)


def storage(decode: tuple[Answer, ...], prefill: Answer = PREFILLED) -> Any:
    engines = FakeEngine(prefill), FakeEngine(*decode)
    return setup(*engines, connector="shared-storage")


def bodies(fake: Setup) -> tuple[list[Any], list[Any]]:
    return [s.body for s in fake.prefill.seen], [s.body for s in fake.decode.seen]


async def test_prefill_comes_first_and_decode_gets_the_original_body() -> None:
    async with storage((DECODED,)) as fake:
        response, body = await fake.ask(BODY)
    assert bodies(fake) == ([{**BODY, "max_tokens": 1, "stream": False}], [BODY])
    assert response.headers["x-warmroute-prefill"] == "ok"
    assert msgspec.json.decode(body)["usage"] == usage(16)


@pytest.mark.parametrize("stop", [says(STOPPED), streams(*STOPPED_STREAM)], ids=["whole", "stream"])
async def test_with_a_threshold_decode_is_asked_before_prefill_and_after_it(stop: Answer) -> None:
    async with storage((stop, DECODED)) as fake:
        response, _ = await fake.ask(WITH_THRESHOLD)
    again = {**BODY, "cache_hit_threshold": 0}
    assert bodies(fake) == ([{**again, "max_tokens": 1, "stream": False}], [WITH_THRESHOLD, again])
    assert response.headers["x-warmroute-prefill"] == "ok"


@pytest.mark.parametrize(
    ("answer", "told"),
    [
        (DECODED, b'{"choices": [{"text": "hi"}]'),
        (streams(b'data: {"choices":[{"text":"a"}]}\n\n', b"data: [DONE]\n\n"), b"data: {"),
    ],
    ids=["whole", "stream"],
)
async def test_an_engine_with_enough_in_its_cache_answers_by_itself(
    answer: Answer, told: bytes
) -> None:
    async with storage((answer,)) as fake:
        response, body = await fake.ask(WITH_THRESHOLD)
    assert body.startswith(told)
    assert bodies(fake) == ([], [WITH_THRESHOLD])
    assert "x-warmroute-prefill" not in response.headers
    assert fake.stats.prefills == {Outcome.UNNEEDED: 1}


async def test_a_prefill_that_fails_leaves_all_to_decode() -> None:
    async with storage((says(STOPPED), DECODED), says({}, 500)) as fake:
        response, _ = await fake.ask(WITH_THRESHOLD)
    assert (response.status, response.headers["x-warmroute-prefill"]) == (200, "failed")
    assert bodies(fake)[1][-1] == {**BODY, "cache_hit_threshold": 0}


async def test_a_refusal_of_the_prefill_engine_is_the_answer() -> None:
    async with storage((DECODED,), says({}, 400)) as fake:
        response, _ = await fake.ask(BODY)
    assert response.status == 400
    assert bodies(fake)[1] == []
