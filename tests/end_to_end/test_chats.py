"""What a user sees through Envoy with the `openai` client."""

from __future__ import annotations

import asyncio
import random
from pathlib import Path
from typing import Any

import openai
import pytest

from tests.end_to_end.conftest import running_fleet
from tests.support.processes import Fleet, until

WORDS = (
    *("river", "stone", "garden", "window", "letter", "summer", "winter", "copper", "silver"),
    *("planet", "forest", "market", "bridge", "engine", "kernel", "vector", "matrix", "number"),
    *("person", "village", "island", "harbor", "candle", "mirror"),
)


def prose(seed: int, words: int) -> str:
    """Text that no other seed starts with."""
    rng = random.Random(seed)
    return " ".join(rng.choice(WORDS) for _ in range(words))


def client_of(fleet: Fleet) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{fleet.url}/v1", api_key="none", max_retries=0, timeout=20)


async def ask(client: openai.AsyncOpenAI, messages: list[Any], **extra: Any) -> Any:
    answer = await client.chat.completions.create(
        model="tiny", messages=messages, max_tokens=8, **extra
    )
    assert answer.usage is not None
    return answer


async def announced(fleet: Fleet, answer: Any) -> None:
    """Wait until the index knows all the blocks that the engine computed for an answer."""
    computed = answer.prompt_token_ids + answer.choices[0].token_ids[:-1]

    async def there() -> bool:
        found = await fleet.match({"model": "tiny", "token_ids": computed})
        held = max(endpoint["blocks"] for endpoint in found["endpoints"].values())
        return bool(held == len(computed) // 16)

    await until(there)


async def endings(fleet: Fleet, count: int) -> list[Any]:
    """The router's events of the first `count` chats, once they are all there."""

    def there() -> list[Any]:
        chats = [event for event in fleet.ended() if event["kind"] == "chat"]
        return chats if len(chats) >= count else []

    return list(await until(there))


async def test_a_chat_stays_where_its_prefix_is_and_reuses_it_as_predicted(
    tmp_path: Path, full_duplex: bool
) -> None:
    async with (
        running_fleet(tmp_path, full_duplex=full_duplex) as fleet,
        client_of(fleet) as client,
    ):
        messages = [{"role": "system", "content": prose(1, 300)}]
        cached = []
        for turn in range(5):
            messages.append({"role": "user", "content": prose(100 + turn, 20)})
            answer = await ask(client, messages, extra_body={"return_token_ids": True})
            cached.append(answer.usage.prompt_tokens_details.cached_tokens)
            reply = answer.choices[0].message.content
            messages.append({"role": "assistant", "content": reply})
            await announced(fleet, answer)
        events = await endings(fleet, 5)
        assert len({event["endpoint"] for event in events}) == 1
        assert [event["predicted"] for event in events] == cached
        # In full duplex a router sees no response body unless the gateway is set to send it.
        assert [event["reported"] for event in events] == ([None] * 5 if full_duplex else cached)
        assert cached[0] == 0
        assert cached[1] > 300
        assert cached == sorted(set(cached))


async def test_different_chats_spread_and_a_dead_engine_is_left(tmp_path: Path) -> None:
    async with running_fleet(tmp_path) as fleet, client_of(fleet) as client:
        chats = [[{"role": "user", "content": prose(seed, 60)}] for seed in range(20)]
        for messages in chats:
            await ask(client, messages)
        events = await endings(fleet, 20)
        used = [event["endpoint"] for event in events]
        assert set(used) == set(fleet.engines)
        assert max(used.count(engine) for engine in fleet.engines) <= 10

        dead = used[0]
        fleet.kill(dead.rpartition(":")[0])

        async def gone() -> bool:
            state = await fleet.get("/debug/state")
            return not next(e for e in state["endpoints"] if e["address"] == dead)["alive"]

        await until(gone)
        for messages in chats:
            await ask(client, messages)
        events = await endings(fleet, 40)
        assert dead not in {event["endpoint"] for event in events[20:]}
        assert {event["status"] for event in events[20:]} == {200}


async def test_a_burst_with_a_new_prefix_goes_to_one_engine(tmp_path: Path) -> None:
    async with (
        running_fleet(tmp_path, engine_flags=("--event-delay=1s",)) as fleet,
        client_of(fleet) as client,
    ):
        system = {"role": "system", "content": prose(7, 400)}
        questions = [{"role": "user", "content": prose(200 + i, 30)} for i in range(8)]
        await asyncio.gather(*(ask(client, [system, question]) for question in questions))
        events = await endings(fleet, 8)
        assert len({event["endpoint"] for event in events}) == 1
        assert sum(event["predicted"] > 0 for event in events) >= 7


async def test_requests_flow_by_load_while_the_tokenizer_is_down(tmp_path: Path) -> None:
    async with running_fleet(tmp_path) as fleet, client_of(fleet) as client:
        fleet.kill("tokenizer")

        async def noticed() -> bool:
            return "tokenizer: not connected" in (await fleet.get("/readyz"))["degraded"]

        await until(noticed)
        chats = [[{"role": "user", "content": prose(seed, 40)}] for seed in range(12)]
        await asyncio.gather(*(ask(client, messages) for messages in chats))
        events = await endings(fleet, 12)
        assert {event["status"] for event in events} == {200}
        assert {event["predicted"] for event in events} == {None}
        assert len({event["endpoint"] for event in events}) == 4
        assert (
            await fleet.metric("warmroute_untokenized_requests_total", reason="unavailable") == 12
        )


async def test_a_model_that_nobody_serves_gets_the_engines_own_error(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, engines=1) as fleet, client_of(fleet) as client:
        with pytest.raises(openai.NotFoundError, match="does not exist"):
            await client.chat.completions.create(
                model="nobody", messages=[{"role": "user", "content": "hi"}]
            )


async def test_a_stream_ends_with_the_usage_it_was_asked_for(tmp_path: Path) -> None:
    async with running_fleet(tmp_path, engines=2) as fleet, client_of(fleet) as client:
        messages: list[Any] = [{"role": "user", "content": prose(5, 80)}]
        reported: list[Any] = []
        for options in ({"include_usage": True}, {"include_usage": True}, None):
            extra: Any = {} if options is None else {"stream_options": options}
            stream = await client.chat.completions.create(
                model="tiny", messages=messages, max_tokens=8, stream=True, **extra
            )
            chunks = [chunk async for chunk in stream]
            assert "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
            usage = chunks[-1].usage
            reported.append(usage.prompt_tokens_details.cached_tokens if usage else None)
        assert reported[0] == 0
        assert reported[1] > 100
        assert reported[2] is None
        events = await endings(fleet, 3)
        assert [event["reported"] for event in events] == reported
        assert [event["predicted"] for event in events] == [0, reported[1], reported[1]]


async def test_an_adapter_has_a_cache_of_its_own(tmp_path: Path) -> None:
    async with (
        running_fleet(tmp_path, engines=2, engine_flags=("--lora=sql",)) as fleet,
        client_of(fleet) as client,
    ):
        messages: list[Any] = [{"role": "user", "content": prose(6, 80)}]
        for model in ("tiny", "sql", "sql", "tiny"):
            await client.chat.completions.create(model=model, messages=messages, max_tokens=8)
        events = await endings(fleet, 4)
        assert [event["predicted"] > 0 for event in events] == [False, False, True, True]
        assert [event["predicted"] for event in events] == [e["reported"] for e in events]
        assert events[1]["endpoint"] == events[2]["endpoint"]
        assert events[0]["endpoint"] == events[3]["endpoint"]
