"""What outlives a conductor, and what it says of engines that are not as they registered."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from indexer.conductor.conductor import Conductor
from indexer.conductor.service import FILE_NAME, ConductorService
from indexer.prefix_index import PrefixIndex
from tests.indexer.conductor.api import SIZE, TOPIC, registering, running, stored, tokens
from tests.indexer.subscribed import PATIENCE_S, Context, Publisher


def service(context: Context, folder: Path) -> ConductorService:
    return ConductorService(Conductor(PrefixIndex), context, folder)


async def test_registrations_survive_a_restart(context: Context, tmp_path: Path) -> None:
    with Publisher(context) as engine, Publisher(context) as gone:
        body = registering(medium_endpoints={"npu": engine.endpoint})
        other = registering("other", medium_endpoints={"npu": gone.endpoint})
        async with running(context, tmp_path) as api:
            assert (await api.post("/register", body)).status == 201
            assert (await api.post("/register", other)).status == 201
            assert (await api.post("/unregister", other)).status == 200
            await engine.heard()
        await engine.heard(0)
        async with running(context, tmp_path) as api:
            await engine.heard()
            assert (await api.post("/register", body)).status == 409
            assert (await api.post("/unregister", other)).status == 404
            engine.send(stored([11]), topic=TOPIC)
            async with asyncio.timeout(PATIENCE_S):
                while not await api.found():  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(0.01)


async def test_who_only_posted_events_is_not_kept(context: Context, tmp_path: Path) -> None:
    data = {"type": "stored", "token_ids": tokens(1), "block_hashes": [11]}
    events = {"instance_id": "a", "model_name": "m", "events": [{"event_id": 1, "data": data}]}
    async with running(context, tmp_path) as api:
        await api.post("/events", events)
        await api.post("/register", registering("b"))
    kept = (tmp_path / FILE_NAME).read_text()
    assert '"instance":"b"' in kept
    assert '"instance":"a"' not in kept


def test_a_file_that_cannot_be_read_is_told_and_left_alone(
    context: Context, tmp_path: Path
) -> None:
    (tmp_path / FILE_NAME).write_text("{")
    with capture_logs() as logs:
        service(context, tmp_path).restore()
    assert [entry["event"] for entry in logs] == ["conductor.state_ignored"]


async def test_a_folder_that_cannot_be_written_fails_no_registration(
    context: Context, tmp_path: Path
) -> None:
    (tmp_path / FILE_NAME).mkdir()
    kept = service(context, tmp_path)
    with capture_logs() as logs:
        await kept.changed()
    assert kept.failed == 1
    assert [entry["event"] for entry in logs] == ["conductor.state_not_kept"]


@pytest.mark.parametrize("sent", [100, 64])
async def test_a_wrong_block_size_is_told_with_the_one_the_engine_sends(
    context: Context, sent: int
) -> None:
    with Publisher(context) as engine:
        async with running(context) as api:
            await api.post("/register", registering(medium_endpoints={"npu": engine.endpoint}))
            await engine.heard()
            event = stored([11])
            engine.send({**event, "token_ids": list(range(sent)), "block_size": sent}, topic=TOPIC)
            with capture_logs() as logs:
                watch = asyncio.get_running_loop().create_task(api.service.run())
                async with asyncio.timeout(PATIENCE_S):
                    while not logs:  # noqa: ASYNC110 - nobody tells
                        await asyncio.sleep(0.01)
                watch.cancel()
    assert [(entry["event"], entry["text"]) for entry in logs] == [
        (
            "conductor.fault",
            f"vllm-prefill-1 rank 0 registered with blocks of {SIZE} tokens"
            f" and sends blocks of {sent}",
        )
    ]


def test_syncing_again_opens_nothing_twice_and_clears_nothing(context: Context) -> None:
    async def live() -> None:
        with Publisher(context) as engine:
            async with running(context) as api:
                await api.post("/register", registering(medium_endpoints={"npu": engine.endpoint}))
                await engine.heard()
                engine.send(stored([11]), topic=TOPIC)
                async with asyncio.timeout(PATIENCE_S):
                    while not await api.found():  # noqa: ASYNC110 - nobody tells
                        await asyncio.sleep(0.01)
                api.service.sync()
                assert await api.found()
                (subscriptions,) = api.service._subscriptions.values()
                assert subscriptions.stats.opened == 1

    asyncio.run(live())
