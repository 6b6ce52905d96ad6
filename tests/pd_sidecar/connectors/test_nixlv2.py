from __future__ import annotations

import asyncio
import json
from typing import Any

import msgspec
import pytest

from pd_sidecar.connectors.nixlv2 import handed_over
from pd_sidecar.connectors.types import Outcome, Whole
from tests.pd_sidecar.fakes import (
    DECODED,
    PARAMS,
    PREFILLED,
    Answer,
    FakeEngine,
    hangs,
    says,
    setup,
    streams,
    usage,
)
from tests.support.ports import free_port
from tests.support.processes import until
from tests.support.recordings import CAPTURES

ASK = {
    "do_remote_decode": True,
    "do_remote_prefill": False,
    "remote_engine_id": None,
    "remote_block_ids": None,
    "remote_host": None,
    "remote_port": None,
}

BODY = {"model": "m", "prompt": "x", "max_tokens": 8, "top_p": 0.1}


def recorded() -> dict[str, tuple[Any, Any]]:
    """Name -> the recorded exchanges with the prefill and with the decode engine."""
    lines = map(json.loads, (CAPTURES / "pd_nixl.requests.jsonl").read_text().splitlines())
    by_step = {line["step"]: line for line in lines}
    pairs = {}
    for step, line in by_step.items():
        decode = by_step.get(step.replace("-1-prefill", "-2-decode"))
        if step.endswith("-1-prefill") and decode is not None and "body" in decode:
            pairs[step.removesuffix("-1-prefill")] = line, decode
    return pairs


@pytest.mark.parametrize("name", sorted(recorded()))
async def test_both_engines_get_what_the_recorded_ones_got(name: str) -> None:
    prefill, decode = recorded()[name]
    asked = {k: v for k, v in decode["body"].items() if k != "kv_transfer_params"}
    async with setup(
        FakeEngine(says(prefill["response"])), FakeEngine(says(decode["response"]))
    ) as fake:
        response, body = await fake.ask(asked, prefill["path"], **{"x-request-id": "pd"})
    (at_prefill,), (at_decode,) = fake.prefill.seen, fake.decode.seen
    chat = prefill["path"].endswith("chat/completions")
    assert at_prefill.body == prefill["body"] | ({"max_completion_tokens": 1} if chat else {})
    assert at_decode.body == decode["body"]
    assert at_prefill.headers["x-request-id"] == at_decode.headers["x-request-id"] == "pd"
    assert (response.status, msgspec.json.decode(body)) == (200, decode["response"])
    assert response.headers["x-warmroute-prefill"] == "ok"


def test_the_recording_has_plain_and_chat_exchanges() -> None:
    assert len(recorded()) >= 5
    assert any(d["path"].endswith("chat/completions") for _, d in recorded().values())


async def test_the_decode_engine_gets_the_clients_values_byte_for_byte() -> None:
    body = b'{"prompt": "x", "seed": 12345678901234567890123, "top_p": 0.10, "stop": "\\u0041"}'
    async with setup(FakeEngine(PREFILLED), FakeEngine(DECODED)) as fake:
        await fake.ask(body)
    for engine in (fake.prefill, fake.decode):
        raw = engine.seen[0].raw
        assert b'"seed":12345678901234567890123' in raw
        assert b'"top_p":0.10' in raw
        assert b'"stop":"\\u0041"' in raw


@pytest.mark.parametrize(
    ("path", "body", "prefill"),
    [
        (
            "/v1/chat/completions",
            {"stream": True, "stream_options": {"include_usage": True}, "min_tokens": 5},
            {"stream": False, "max_tokens": 1, "max_completion_tokens": 1, "min_tokens": 1},
        ),
        ("/v1/responses", {"max_output_tokens": 9}, {"stream": False, "max_output_tokens": 1}),
        ("/v1/messages", {"max_tokens": 9}, {"stream": False, "max_tokens": 1}),
        (
            "/inference/v1/generate",
            {"token_ids": [1], "sampling_params": {"max_tokens": 9, "top_k": 3, "min_tokens": 2}},
            {
                "token_ids": [1],
                "stream": False,
                "sampling_params": {"max_tokens": 1, "top_k": 3, "min_tokens": 1},
            },
        ),
    ],
)
async def test_prefill_is_one_token_whatever_the_api(
    path: str, body: dict[str, Any], prefill: dict[str, Any]
) -> None:
    async with setup(FakeEngine(PREFILLED), FakeEngine(DECODED)) as fake:
        await fake.ask(body, path)
    assert fake.prefill.seen[0].body == prefill | {"kv_transfer_params": ASK}
    assert fake.decode.seen[0].body == body | {"kv_transfer_params": PARAMS}


async def test_usage_tells_what_the_prefill_engine_had_cached() -> None:
    async with setup(FakeEngine(PREFILLED), FakeEngine(DECODED)) as fake:
        _, body = await fake.ask(BODY)
    assert msgspec.json.decode(body)["usage"] == usage(16)


async def test_a_stream_comes_as_it_is_made_with_its_usage_corrected() -> None:
    first = b'data: {"choices":[{"text":"a"}]}\n\n'
    last = b"data: " + msgspec.json.encode({"choices": [], "usage": usage(20)}) + b"\n\n"
    go = asyncio.Event()
    engine = FakeEngine(streams(first, last[:9], last[9:], b"data: [DONE]\n\n", pause=go))
    async with setup(FakeEngine(PREFILLED), engine) as fake:
        headers = {"x-prefiller-host-port": fake.prefill.address}
        async with fake.session.post(
            f"{fake.url}/v1/completions", json={**BODY, "stream": True}, headers=headers
        ) as response:
            assert response.headers["x-warmroute-prefill"] == "ok"
            assert await response.content.readany() == first
            go.set()
            rest = await response.read()
    right = b"data: " + msgspec.json.encode({"choices": [], "usage": usage(16)}) + b"\n\n"
    assert rest == right + b"data: [DONE]\n\n"


@pytest.mark.parametrize("status", [500, 503])
async def test_where_prefill_fails_decode_serves_alone_with_the_original_body(status: int) -> None:
    async with setup(FakeEngine(says({}, status)), FakeEngine(DECODED)) as fake:
        raw = b'{ "prompt": "x" }'
        response, body = await fake.ask(raw)
    assert (response.status, response.headers["x-warmroute-prefill"]) == (200, "failed")
    assert [seen.raw for seen in fake.decode.seen] == [raw]
    assert msgspec.json.decode(body)["usage"] == usage(20)
    assert fake.stats.prefills == {Outcome.FAILED: 1}


async def test_a_prefill_engine_that_is_not_there_costs_no_request() -> None:
    async with setup(FakeEngine(PREFILLED), FakeEngine(DECODED)) as fake:
        response, _ = await fake.ask(BODY, at=f"127.0.0.1:{free_port()}")
    assert (response.status, response.headers["x-warmroute-prefill"]) == (200, "failed")


async def test_a_prefill_that_takes_too_long_is_given_up() -> None:
    async with setup(FakeEngine(hangs), FakeEngine(DECODED), prefill_timeout_s=0.2) as fake:
        response, _ = await fake.ask(BODY)
        assert (response.status, response.headers["x-warmroute-prefill"]) == (200, "failed")
        await until(lambda: fake.prefill.left == 1)


@pytest.mark.parametrize("status", [400, 404, 429])
async def test_a_request_that_the_prefill_engine_refuses_is_refused(status: int) -> None:
    refusal = {"error": {"message": "no", "code": status}}
    prefill = FakeEngine(says(refusal, status, {"x-why": "because"}))
    async with setup(prefill, FakeEngine(DECODED)) as fake:
        response, body = await fake.ask(BODY)
    assert (response.status, msgspec.json.decode(body)) == (status, refusal)
    assert response.headers["x-why"] == "because"
    assert response.headers["x-warmroute-prefill"] == "ok"
    assert fake.decode.seen == []


async def test_a_prefill_without_transfer_parameters_hands_nothing_over() -> None:
    async with setup(FakeEngine(says({"usage": usage(0)})), FakeEngine(DECODED)) as fake:
        response, _ = await fake.ask(BODY)
    assert response.headers["x-warmroute-prefill"] == "failed"
    assert fake.decode.seen[0].body == BODY
    assert fake.stats.prefills == {Outcome.NO_CACHE: 1}


async def test_a_cache_that_cannot_be_fetched_is_computed_by_the_decode_engine() -> None:
    decode = FakeEngine(says({"error": {}}, 500), DECODED)
    async with setup(FakeEngine(PREFILLED), decode) as fake:
        response, _ = await fake.ask(BODY)
    assert (response.status, response.headers["x-warmroute-prefill"]) == (200, "failed")
    assert [seen.body for seen in decode.seen] == [BODY | {"kv_transfer_params": PARAMS}, BODY]
    assert fake.stats.prefills == {Outcome.NOT_TAKEN: 1}


@pytest.mark.parametrize(
    ("answers", "asked", "result"),
    [((says({}, 503), PREFILLED), 2, "ok"), ((says({}, 500), PREFILLED), 1, "failed")],
    ids=["busy", "broken"],
)
async def test_a_busy_prefill_engine_is_asked_again_if_told_so(
    answers: tuple[Answer, ...], asked: int, result: str
) -> None:
    config = {"prefill_retries": 2, "prefill_backoff_s": 0.01}
    async with setup(FakeEngine(*answers), FakeEngine(DECODED), **config) as fake:
        response, _ = await fake.ask(BODY)
    assert len(fake.prefill.seen) == asked
    assert response.headers["x-warmroute-prefill"] == result


@pytest.mark.parametrize(
    "answer",
    [
        b"no json",
        b'{"kv_transfer_params": null}',
        b'{"kv_transfer_params": {"do_remote_prefill": true, "remote_block_ids": [[1]]}}',
        b'{"kv_transfer_params": [1]}',
    ],
)
def test_incomplete_transfer_parameters_are_none(answer: bytes) -> None:
    assert handed_over(Whole(200, (), answer)) is None


async def test_a_client_that_goes_away_takes_its_prefill_with_it() -> None:
    async with setup(FakeEngine(hangs), FakeEngine(DECODED)) as fake:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(fake.ask(BODY))
            await until(lambda: fake.prefill.seen)
            task.cancel()
        await until(lambda: fake.prefill.left == 1)
    assert fake.decode.seen == []
