from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from tests.pd_sidecar.fakes import DECODED, Answer, FakeEngine, Setup, hangs, says, setup
from tests.support.ports import free_port
from tests.support.processes import until

BODY = {"prompt": "x", "max_tokens": 8, "stream": True}


def rooms(prefill: Answer, *decode: Answer) -> Any:
    return setup(FakeEngine(prefill), FakeEngine(*decode), connector="sglang", bootstrap_port=7)


def after(event: asyncio.Event, answer: Answer) -> Answer:
    async def wait(request: web.Request) -> web.StreamResponse:
        await event.wait()
        return await answer(request)

    return wait


async def test_both_engines_get_the_request_at_once_and_a_room_to_meet_in() -> None:
    go = asyncio.Event()
    async with rooms(after(go, says({})), after(go, DECODED)) as fake, asyncio.TaskGroup() as group:
        asking = group.create_task(fake.ask(BODY))
        await until(lambda: fake.prefill.seen and fake.decode.seen)
        go.set()
        response, _ = await asking
    (prefill,), (decode,) = fake.prefill.seen, fake.decode.seen
    assert prefill.body == decode.body
    assert 0 <= decode.body["bootstrap_room"] < 2**63
    rest = {k: v for k, v in decode.body.items() if k != "bootstrap_room"}
    assert rest == {**BODY, "bootstrap_host": "127.0.0.1", "bootstrap_port": 7}
    assert (response.status, response.headers["x-warmroute-prefill"]) == (200, "ok")


async def test_every_request_has_a_room_of_its_own() -> None:
    async with rooms(says({}), DECODED) as fake:
        await fake.ask(BODY)
        await fake.ask(BODY)
    assert len({seen.body["bootstrap_room"] for seen in fake.decode.seen}) == 2


async def ask_until_decode_waits(fake: Setup, go: asyncio.Event) -> tuple[int, str]:
    """Status and prefill's result, where prefill answers once decode has the request."""
    async with asyncio.TaskGroup() as group:
        asking = group.create_task(fake.ask(BODY))
        await until(lambda: fake.decode.seen)
        go.set()
        response, _ = await asking
    await until(lambda: fake.decode.left == 1)
    return response.status, response.headers["x-warmroute-prefill"]


async def test_a_prefill_that_fails_ends_the_wait_of_decode() -> None:
    go = asyncio.Event()
    async with rooms(after(go, says({}, 500)), hangs, DECODED) as fake:
        assert await ask_until_decode_waits(fake, go) == (200, "failed")
    assert fake.decode.seen[-1].body == BODY


async def test_a_refusal_of_the_prefill_engine_is_the_answer() -> None:
    go = asyncio.Event()
    async with rooms(after(go, says({"error": "no"}, 422)), hangs) as fake:
        assert await ask_until_decode_waits(fake, go) == (422, "ok")
    assert len(fake.decode.seen) == 1


async def test_a_prefill_engine_that_is_not_there_leaves_all_to_decode() -> None:
    async with rooms(says({}), DECODED) as fake:
        response, _ = await fake.ask(BODY, at=f"127.0.0.1:{free_port()}")
    assert response.status == 200
    assert fake.decode.seen[-1].body == BODY


async def test_an_answer_ends_a_prefill_that_still_runs() -> None:
    async with rooms(hangs, DECODED) as fake:
        response, _ = await fake.ask(BODY)
        assert response.status == 200
        await until(lambda: fake.prefill.left == 1)


async def test_a_decode_engine_that_is_not_there_is_one_error() -> None:
    async with (
        rooms(hangs, DECODED) as fake,
        setup(fake.prefill, fake.decode, connector="sglang", engine_port=free_port()) as other,
    ):
        response, _ = await other.ask(BODY)
    assert response.status == 502


async def test_a_client_that_goes_away_ends_both() -> None:
    async with rooms(hangs, hangs) as fake:
        async with asyncio.TaskGroup() as group:
            task = group.create_task(fake.ask(BODY))
            await until(lambda: fake.prefill.seen and fake.decode.seen)
            task.cancel()
        await until(lambda: fake.prefill.left == fake.decode.left == 1)
