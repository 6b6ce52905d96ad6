"""An index on disk: written whole or not at all, and ignored where it does not fit."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import msgspec
import pytest
from structlog.testing import capture_logs

from indexer.block import Trust
from tests.router.producers.test_prefix import A, Fixture, stored
from warmroute.errors import StartError
from warmroute.snapshots import Snapshots, of_router


def snapshots(folder: Path, fixture: Fixture, now: float = 100.0) -> Snapshots:
    return of_router(folder, fixture.prefix, fixture.pool, clock=lambda: now)


async def test_what_one_router_kept_the_next_one_knows(tmp_path: Path) -> None:
    first = Fixture()
    first.announce(A, stored([1], range(16)))
    await snapshots(tmp_path, first).save()
    second = Fixture()
    with capture_logs() as logs:
        snapshots(tmp_path, second).restore()
    assert logs == [{"event": "snapshot.restored", "log_level": "info", "streams": 1, "of": 1}]
    assert second.feeds[A].trust is Trust.STALE
    second.feeds[A].proven()
    assert await second.reach(A) == 1


async def test_streams_over_the_common_address_come_back(tmp_path: Path) -> None:
    config: dict[str, Any] = {"zmqEndpoint": "tcp://*:5557", "discoverPods": False}
    for restores in (False, True):
        fixture = Fixture(kvEventsConfig=config)
        prefix = fixture.prefix
        prefix.central = prefix.open_central(fixture.pool.snapshot)
        assert prefix.central is not None
        kept = snapshots(tmp_path, fixture)
        if restores:
            kept.restore()
            (feed,) = prefix.index.feeds()
            assert (feed.stats.last_seq, feed.trust) == (0, Trust.STALE)
        else:
            payload = msgspec.msgpack.encode([1.0, [stored([1], range(16))], 0])
            prefix.central.receive([f"kv@{A}@m".encode(), bytes(8), payload], 1.0, 1)
            await kept.save()


async def test_a_file_that_does_not_fit_is_ignored_and_said(tmp_path: Path) -> None:
    fixture = Fixture()
    kept = snapshots(tmp_path, fixture)
    kept.restore()
    kept.path.write_bytes(b"junk")
    with capture_logs() as logs:
        kept.restore()
    assert [(log["event"], log["reason"]) for log in logs] == [
        ("snapshot.ignored", "not a snapshot")
    ]
    kept.path.unlink()
    kept.path.mkdir()
    with capture_logs() as logs:
        kept.restore()
    assert [log["event"] for log in logs] == ["snapshot.ignored"]


async def test_a_failed_write_leaves_the_one_before(tmp_path: Path) -> None:
    fixture = Fixture()
    kept = snapshots(tmp_path, fixture)
    await kept.save()
    before = kept.path.read_bytes()
    kept.path.with_suffix(".part").mkdir()
    with capture_logs() as logs:
        await kept.save()
    assert (kept.failed, [log["event"] for log in logs]) == (1, ["snapshot.failed"])
    assert kept.path.read_bytes() == before


async def test_it_is_written_again_and_again(tmp_path: Path) -> None:
    kept = snapshots(tmp_path, Fixture())
    async with asyncio.timeout(10), asyncio.TaskGroup() as group:
        running = group.create_task(kept.run(0.01))
        for _ in range(2):
            while not kept.path.exists():  # noqa: ASYNC110 - a file sets no event
                await asyncio.sleep(0.005)
            kept.path.unlink()
        running.cancel()


def test_a_folder_that_is_not_there_ends_the_start(tmp_path: Path) -> None:
    with pytest.raises(StartError, match="--state-dir"):
        snapshots(tmp_path / "missing", Fixture())
    (tmp_path / "file").touch()
    with pytest.raises(StartError, match="--state-dir"):
        snapshots(tmp_path / "file", Fixture())


def test_the_name_of_the_producer_cannot_leave_the_folder(tmp_path: Path) -> None:
    fixture = Fixture()
    fixture.prefix.name = "../x"
    assert snapshots(tmp_path, fixture).path.parent == tmp_path
