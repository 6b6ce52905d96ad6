from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest

from pd_sidecar.allow import AllowList, ListingError
from pd_sidecar.stats import Stats
from pd_sidecar.watch import Watch
from tests.support.processes import until


def write(path: Path, *hosts: str) -> None:
    entries = [
        {"name": host, "address": host, "port": 8000, "labels": {"llm-d.ai/role": "prefill"}}
        for host in hosts
    ]
    path.write_bytes(msgspec.json.encode({"endpoints": entries}))


async def test_the_list_follows_the_file_and_outlives_a_broken_one(tmp_path: Path) -> None:
    path, allow, stats = tmp_path / "endpoints.yaml", AllowList(), Stats()
    write(path, "10.0.0.1")
    watch = Watch(allow, path, stats, interval_s=0.01)
    await watch.load()
    assert allow.allows(("10.0.0.1", 8000))
    async with asyncio.TaskGroup() as group:
        following = group.create_task(watch.run())
        write(path, "10.0.0.2", "localhost")
        await until(lambda: allow.allows(("10.0.0.2", 8000)))
        assert not allow.allows(("10.0.0.1", 8000))
        await until(lambda: allow.allows(("127.0.0.1", 8000)))
        path.write_bytes(b"endpoints: 3")
        await until(lambda: stats.listing_failures)
        assert allow.allows(("10.0.0.2", 8000))
        write(path, "10.0.0.3")
        await until(lambda: allow.allows(("10.0.0.3", 8000)))
        following.cancel()


async def test_a_hostname_that_was_given_is_resolved_without_a_file() -> None:
    allow = AllowList([("localhost", 8000), ("no-such-host.invalid", 8000)])
    await Watch(allow, None, Stats()).load()
    assert allow.allows(("127.0.0.1", 8000))


async def test_a_file_that_is_no_use_at_the_start_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="missing"):
        await Watch(AllowList(), tmp_path / "missing", Stats()).load()
    (tmp_path / "bad").write_text("endpoints: 3")
    with pytest.raises(ListingError):
        await Watch(AllowList(), tmp_path / "bad", Stats()).load()
