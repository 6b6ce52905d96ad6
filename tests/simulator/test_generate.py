from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import openai
import pytest

from tests.simulator.recordings import samples, sse_events
from tests.simulator.serving import MESSAGES, TIMEOUT_S, Client, cached, served, shape

USAGE = {"include_usage": True}

REFUSED = [
    name
    for name, sample in samples().items()
    if name.startswith(("err-", "dp-rank")) and sample.status >= 400
]
# The renderer words this refusal itself.
OWN_WORDS = {"err-continue-and-generation-prompt"}

ANSWERED = [
    "chat-ok",
    "completion-request-id",
    "completion-request-id-body",
    "chat-request-id",
    "dp-rank-0",
    "dp-rank-not-a-number",
    "kv-transfer-params-without-connector",
    "err-no-model",
    "err-bad-role",
    "err-unknown-field-is-accepted",
    "err-priority",
]


async def stream(client: Client, path: str, body: dict[str, Any]) -> list[bytes]:
    """The events of a stream, each with the blank line that ends it."""
    async with client.http.post(path, json=body | {"stream": True}) as response:
        assert response.status == 200
        assert response.headers["Content-Type"] == "text/event-stream; charset=utf-8"
        raw = await response.read()
    assert raw.endswith(b"data: [DONE]\n\n")
    return [event + b"\n\n" for event in raw.split(b"\n\n")[:-1]]


def chunks(events: list[bytes]) -> list[Any]:
    return [msgspec.json.decode(event.removeprefix(b"data: ")) for event in events[:-1]]


def shapes(events: list[bytes]) -> list[Any]:
    """The different forms of chunks, in order of appearance."""
    found: list[Any] = []
    for chunk in chunks(events):
        if shape(chunk) not in found:
            found.append(shape(chunk))
    return found


@pytest.mark.parametrize("name", REFUSED)
async def test_a_request_is_refused_as_recorded(name: str) -> None:
    sample = samples()[name]
    async with (
        served(num_blocks=129, max_model_len=1024) as client,
        client.http.request(
            sample.method,
            sample.path,
            headers={"Content-Type": "application/json"} | (sample.headers or {}),
            data=sample.body if isinstance(sample.body, str) else msgspec.json.encode(sample.body),
        ) as response,
    ):
        answer = await response.json()
    assert response.status == sample.status
    assert response.headers["Content-Type"] == sample.response_headers["content-type"]
    if name in OWN_WORDS:
        assert shape(answer) == shape(sample.response)
    else:
        assert answer == sample.response


@pytest.mark.parametrize("name", ANSWERED)
async def test_an_answer_has_the_keys_of_the_recorded_one(name: str) -> None:
    sample = samples()[name]
    async with served() as client:
        answer = await client.ok(sample.path, sample.body, **(sample.headers or {}))
    assert shape(answer) == shape(sample.response)
    assert answer["model"] == "tiny"


async def test_a_repeated_prompt_is_reused_and_answered_alike() -> None:
    prompt = list(range(100, 150))
    async with served() as client:
        first = await client.complete(prompt, max_tokens=5)
        again = await client.complete(prompt, max_tokens=5)
    assert (cached(first), cached(again)) == (0, 48)
    assert first["choices"] == again["choices"]
    assert first["usage"]["completion_tokens"] == 5
    assert first["choices"][0]["finish_reason"] == "length"


async def test_a_salt_and_an_adapter_keep_prompts_apart() -> None:
    prompt = list(range(100, 150))
    async with served(adapters=("sql",)) as client:
        identities: list[dict[str, str]] = [{}, {"model": "sql"}, {"cache_salt": "a"}]
        for fields in identities:
            assert cached(await client.complete(prompt, **fields)) == 0
        for fields in identities:
            assert cached(await client.complete(prompt, **fields)) == 48


async def test_a_chat_without_a_limit_ends_by_itself() -> None:
    async with served() as client:
        answer = await client.chat(return_token_ids=True)
        longer = await client.chat(ignore_eos=True, max_tokens=100)
    (choice,) = answer["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["stop_reason"] is None
    assert choice["token_ids"][-1] == 2
    assert 18 <= len(choice["token_ids"]) == answer["usage"]["completion_tokens"] <= 30
    assert "<|im_end|>" not in choice["message"]["content"]
    assert longer["choices"][0]["finish_reason"] == "length"
    assert longer["usage"]["completion_tokens"] == 100


async def test_token_ids_are_returned_if_asked_for() -> None:
    async with served() as client:
        chat = await client.chat(return_token_ids=True, max_tokens=4)
        completion = await client.complete([5, 6], return_token_ids=True, max_tokens=4)
    sample = samples()["chat-token-ids"].response
    assert chat["prompt_token_ids"] == sample["prompt_token_ids"]
    assert len(chat["choices"][0]["token_ids"]) == 4
    assert completion["choices"][0]["prompt_token_ids"] == [5, 6]


async def test_several_prompts_and_choices_are_numbered_prompt_by_prompt() -> None:
    async with served() as client:
        answer = await client.complete(
            [[5, 6], [7, 8, 9]], n=2, max_tokens=3, return_token_ids=True
        )
    choices = answer["choices"]
    assert [choice["index"] for choice in choices] == [0, 1, 2, 3]
    prompts = [choice["prompt_token_ids"] for choice in choices]
    assert prompts == [[5, 6], [5, 6], [7, 8, 9], [7, 8, 9]]
    assert choices[0]["text"] != choices[1]["text"]
    assert answer["usage"]["prompt_tokens"] == 5
    assert answer["usage"]["completion_tokens"] == 12


async def test_a_stop_string_ends_the_text_before_it() -> None:
    async with served() as client:
        whole = (await client.complete([5, 6], max_tokens=20))["choices"][0]["text"]
        word = whole.split()[7]
        cut = (await client.complete([5, 6], max_tokens=20, stop=[word]))["choices"][0]
        events = await stream(
            client, "/v1/completions", {"prompt": [5, 6], "max_tokens": 20, "stop": word}
        )
        await client.until_metric("num_requests_running", 0)
    assert cut["text"] == whole[: whole.index(word)]
    assert (cut["finish_reason"], cut["stop_reason"]) == ("stop", word)
    streamed = [chunk["choices"][0] for chunk in chunks(events)]
    assert "".join(choice["text"] for choice in streamed) == cut["text"]
    assert (streamed[-1]["finish_reason"], streamed[-1]["stop_reason"]) == ("stop", word)


async def test_a_stop_token_is_named_as_the_reason() -> None:
    async with served() as client:
        asked: dict[str, Any] = {"max_tokens": 20, "return_token_ids": True}
        tokens = (await client.complete([5, 6], **asked))["choices"][0]["token_ids"]
        cut = (await client.complete([5, 6], **asked, stop_token_ids=[tokens[4]]))["choices"][0]
    assert cut["token_ids"] == tokens[: tokens.index(tokens[4]) + 1]
    assert (cut["finish_reason"], cut["stop_reason"]) == ("stop", tokens[4])


@pytest.mark.parametrize(
    ("recording", "fields"),
    [
        ("sse_chat_usage", {"stream_options": USAGE}),
        ("sse_chat_no_usage", {}),
        (
            "sse_chat_continuous_usage",
            {"stream_options": USAGE | {"continuous_usage_stats": True}},
        ),
        ("sse_chat_token_ids", {"stream_options": USAGE, "return_token_ids": True}),
    ],
)
async def test_a_chat_streams_chunks_as_recorded(recording: str, fields: dict[str, Any]) -> None:
    body = {"messages": MESSAGES, "max_tokens": 4, **fields}
    async with served() as client:
        events = await stream(client, "/v1/chat/completions", body)
    assert shapes(events) == shapes(sse_events(recording))
    assert len([chunk for chunk in chunks(events) if chunk["choices"]]) == 5


async def test_completions_stream_chunks_as_recorded() -> None:
    body = {"prompt": ["import os", "import os"], "max_tokens": 3, "stream_options": USAGE}
    async with served() as client:
        events = await stream(client, "/v1/completions", body)
        whole = await client.complete(["import os", "import os"], max_tokens=3)
    assert shapes(events) == shapes(sse_events("sse_completion_two_prompts"))
    texts = ["", ""]
    for chunk in chunks(events)[:-1]:
        (choice,) = chunk["choices"]
        texts[choice["index"]] += choice["text"]
    assert texts == [choice["text"] for choice in whole["choices"]]


@pytest.mark.parametrize("name", ["sse_error_unknown_model", "sse_error_too_long"])
async def test_a_stream_that_cannot_start_is_a_plain_refusal(name: str) -> None:
    body: dict[str, Any] = {"model": "nope"} if "model" in name else {"prompt": [5] * 5000}
    async with served(num_blocks=129, max_model_len=1024) as client:
        _, answer = await client.post(
            "/v1/completions", {"prompt": "a", "stream": True, "max_tokens": 2, **body}
        )
    assert msgspec.json.encode(answer) == sse_events(name)[0].strip()


async def test_the_request_id_becomes_the_answers_id() -> None:
    async with served() as client:
        by_header = await client.chat(request_id="body", max_tokens=1)
        assert by_header["id"] == "chatcmpl-body"
        body = {"prompt": "a", "request_id": "body"}
        answers = await asyncio.gather(
            *(client.ok("/v1/completions", body, X_Request_Id="same") for _ in range(2))
        )
        assert [answer["id"] for answer in answers] == ["cmpl-same"] * 2
        ids = {(await client.complete("a"))["id"] for _ in range(2)}
    assert len(ids) == 2


async def test_forwarded_ids_of_a_chat_are_used_unseen() -> None:
    async with served() as client:
        answer = await client.chat(
            kv_transfer_params={"prompt_token_ids": [8, 9]}, return_token_ids=True, max_tokens=1
        )
    assert answer["prompt_token_ids"] == [8, 9]


@pytest.mark.parametrize("streams", [True, False])
async def test_a_client_that_goes_away_frees_its_blocks(streams: bool) -> None:
    async with served(decode_s_per_token=0.002, num_blocks=4096) as client:
        body = {"prompt": list(range(100)), "max_tokens": 60_000, "stream": streams}
        async with asyncio.TaskGroup() as tasks:
            asking = tasks.create_task(client.http.post("/v1/completions", json=body))
            await client.until_metric("num_requests_running", 1)
            assert await client.metric("kv_cache_usage_perc") > 0
            if streams:
                (await asking).close()
            else:
                asking.cancel()
        await client.until_metric("num_requests_running", 0)
        assert await client.metric("kv_cache_usage_perc") == 0
        assert (await client.get("/load"))[1] == {"server_load": 0}
        assert (await client.ok("/reset_prefix_cache", {}))["success"]


async def test_requests_wait_their_turn_beyond_the_concurrency() -> None:
    async with served(concurrency=1, decode_s_per_token=0.005) as client:
        async with asyncio.TaskGroup() as tasks:
            for number in range(3):
                tasks.create_task(client.complete([number] * 20, max_tokens=20))
            await client.until_metric("num_requests_waiting", 2)
            assert await client.metric("num_requests_running") == 1
            assert (await client.get("/load"))[1] == {"server_load": 3}
        assert await client.metric("num_requests_waiting") == 0


async def test_ranks_have_caches_of_their_own() -> None:
    prompt = list(range(100, 150))
    body = {"prompt": prompt, "max_tokens": 1}
    async with served(ranks=2) as client:
        reused = [
            cached(await client.ok("/v1/completions", body, X_data_parallel_rank=rank))
            for rank in ("0", "1", "0", "1")
        ]
        assert reused == [0, 0, 48, 48]
        assert await client.metric("prefix_cache_hits_total", rank=1) == 48
        status, answer = await client.post("/v1/completions", body, X_data_parallel_rank="2")
    assert status == 400
    assert answer["error"]["message"] == "data_parallel_rank 2 is out of range [0, 2)."


async def test_a_request_without_a_rank_goes_to_the_idlest() -> None:
    async with served(ranks=2, decode_s_per_token=0.002) as client:
        body = {"prompt": [5] * 40, "max_tokens": 500}
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(client.ok("/v1/completions", body, X_data_parallel_rank="0"))
            await client.until_metric("num_requests_running", 1)
            await client.complete([6] * 40, max_tokens=1)
        assert await client.metric("generation_tokens_total", rank=1) == 1


async def test_a_long_prompt_is_prefilled_at_the_configured_speed() -> None:
    prompt = [number % 8000 for number in range(100_000)]
    async with served(prefill_s_per_token=1e-6) as client:
        answer = await client.complete(prompt, max_tokens=1)
        again = await client.complete(prompt, max_tokens=1)
    assert answer["usage"]["prompt_tokens"] == 100_000
    assert cached(again) == 99_984


async def test_the_openai_client_is_served() -> None:
    async with (
        served(num_blocks=129, max_model_len=1024) as client,
        openai.AsyncOpenAI(
            base_url=f"http://127.0.0.1:{client.bound.http}/v1", api_key="none", max_retries=0
        ) as api,
        asyncio.timeout(TIMEOUT_S),
    ):
        messages: Any = MESSAGES
        whole = await api.chat.completions.create(model="tiny", messages=messages, max_tokens=6)
        assert whole.usage is not None
        assert whole.usage.completion_tokens == 6
        streamed = await api.chat.completions.create(
            model="tiny",
            messages=messages,
            max_tokens=6,
            stream=True,
            stream_options={"include_usage": True},
        )
        received = [chunk async for chunk in streamed]
        assert received[-1].usage is not None
        assert received[-1].usage.total_tokens == whole.usage.total_tokens
        text = "".join(chunk.choices[0].delta.content or "" for chunk in received[:-1])
        assert text == whole.choices[0].message.content
        completion = await api.completions.create(model="tiny", prompt="import os", max_tokens=3)
        assert completion.choices[0].finish_reason == "length"
        assert [model.id async for model in api.models.list()] == ["tiny"]
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            await api.chat.completions.create(model="nope", messages=messages)
        with pytest.raises(openai.BadRequestError, match="maximum context length"):
            await api.completions.create(model="tiny", prompt=[5] * 2000)
