"""The pool follows the endpoints file, and the addresses of the hostnames in it."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from router.pool.discovery import watch
from router.pool.discovery.file import DiscoveryError
from router.pool.discovery.watch import FileDiscovery
from router.pool.endpoint import Endpoint, EngineMetrics
from router.pool.pool import Pool
from tests.router.pool.engines import until


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "endpoints.yaml"


def write(path: Path, *addresses: str, more: str = "") -> None:
    """Replace the file as a careful writer does: another file takes its name."""
    entries = "".join(
        f"\n- {{name: e{i}, address: {a}, port: 8000}}" for i, a in enumerate(addresses)
    )
    new = path.with_suffix(".new")
    new.write_text(f"endpoints: {entries or '[]'}\n{more}")
    new.rename(path)


def overwrite(path: Path, text: str) -> None:
    """Change the file in place, as an editor may."""
    path.write_text(text)


def rename(path: Path, new: Path) -> None:
    path.rename(new)


def addresses(pool: Pool) -> list[str]:
    return [endpoint.address for endpoint in pool.snapshot()]


def make(path: Path, pool: Pool, *, watch_file: bool = True) -> FileDiscovery:
    """A discovery in a hurry."""
    return FileDiscovery(
        path, pool, interval_s=0.01, resolve_interval_s=0.01, watch_file=watch_file
    )


@asynccontextmanager
async def following(discovery: FileDiscovery) -> AsyncIterator[None]:
    """Run a discovery for the length of a block."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(discovery.run())
        yield
        task.cancel()


class Names:
    """Stands in for the resolver of the machine; what it answers can be changed at any time."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.addresses: dict[str, list[str]] = {}
        self.asked = 0
        monkeypatch.setattr(socket, "getaddrinfo", self._look_up)

    def _look_up(
        self, host: str, port: object, *_args: object, **_kwargs: object
    ) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        self.asked += 1
        if host not in self.addresses:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [
            (socket.AF_INET6 if ":" in a else socket.AF_INET, socket.SOCK_STREAM, 6, "", (a, 0))
            for a in self.addresses[host]
        ]


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> Names:
    return Names(monkeypatch)


async def test_load_fills_the_pool_and_keeps_the_rest(path: Path) -> None:
    write(
        path,
        "10.0.0.1",
        more="objectives: {batch: -1}\nmodelRewrites: [{targets: [{modelRewrite: m}]}]",
    )
    pool = Pool()
    discovery = make(path, pool)
    assert not discovery.synced
    await discovery.load()
    assert discovery.synced
    assert addresses(pool) == ["10.0.0.1:8000"]
    assert discovery.objectives == {"batch": -1}
    assert discovery.model_rewrites[0].targets[0].model_rewrite == "m"


@pytest.mark.parametrize("text", [None, "endpoints: ["], ids=["no file", "malformed"])
async def test_load_refuses_a_file_it_cannot_use_and_names_it(path: Path, text: str | None) -> None:
    if text is not None:
        overwrite(path, text)
    discovery = make(path, Pool())
    with pytest.raises(DiscoveryError, match=str(path)):
        await discovery.load()
    assert not discovery.synced


async def test_a_file_that_is_replaced_is_followed_and_scrapes_are_kept(path: Path) -> None:
    write(path, "10.0.0.1")
    pool = Pool()
    discovery = make(path, pool)
    await discovery.load()
    pool.scraped("10.0.0.1:8000", EngineMetrics(waiting=4))
    async with following(discovery):
        write(path, "10.0.0.1", "10.0.0.2")
        await until(lambda: addresses(pool) == ["10.0.0.1:8000", "10.0.0.2:8000"])
        assert pool.snapshot()[0].metrics == EngineMetrics(waiting=4)


async def test_a_file_that_is_still_being_written_is_left_alone(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watch, "SETTLE_S", 0.2)
    entries = [f"- {{name: e{i}, address: 10.0.0.{i}, port: 8000}}\n" for i in range(1, 31)]
    overwrite(path, "endpoints:\n" + "".join(entries))
    pool = Pool()
    discovery = make(path, pool)
    await discovery.load()
    async with following(discovery):
        for written in range(1, len(entries)):
            overwrite(path, "endpoints:\n" + "".join(entries[:written]))
            await asyncio.sleep(0.01)
            assert len(pool.snapshot()) == len(entries)
        await until(lambda: len(pool.snapshot()) == len(entries) - 1)


async def test_a_file_of_the_same_size_and_time_is_seen_to_be_another(path: Path) -> None:
    write(path, "10.0.0.1")
    pool = Pool()
    discovery = make(path, pool)
    await discovery.load()
    other, modified_ns = path.with_name("other"), os.stat(path).st_mtime_ns
    write(other, "10.0.0.2")
    os.utime(other, ns=(modified_ns, modified_ns))
    async with following(discovery):
        rename(other, path)
        await until(lambda: addresses(pool) == ["10.0.0.2:8000"])


async def test_a_link_that_is_turned_to_another_file_is_followed(tmp_path: Path) -> None:
    old, new, path = tmp_path / "old", tmp_path / "new", tmp_path / "endpoints.yaml"
    write(old, "10.0.0.1")
    write(new, "10.0.0.2")
    path.symlink_to(old)
    pool = Pool()
    discovery = make(path, pool)
    await discovery.load()
    async with following(discovery):
        (tmp_path / "link").symlink_to(new)
        (tmp_path / "link").rename(path)
        await until(lambda: addresses(pool) == ["10.0.0.2:8000"])


async def test_a_file_that_appears_later_is_loaded(path: Path) -> None:
    pool = Pool()
    discovery = make(path, pool)
    async with following(discovery):
        await until(lambda: discovery.error is not None)
        assert not discovery.synced
        write(path, "10.0.0.1")
        await until(lambda: discovery.synced)
    assert addresses(pool) == ["10.0.0.1:8000"]


async def test_a_bad_file_changes_nothing_and_each_error_is_logged_once(path: Path) -> None:
    write(path, "10.0.0.1")
    pool = Pool()
    discovery = make(path, pool)
    with capture_logs() as logs:
        await discovery.load()
        async with following(discovery):
            overwrite(path, "")
            await until(lambda: "is empty" in str(discovery.error))
            overwrite(path, "# the same mistake")
            await until(lambda: discovery.failures == 2)
            overwrite(path, "endpoint: []")
            await until(lambda: "unknown field" in str(discovery.error))
            assert addresses(pool) == ["10.0.0.1:8000"]
            write(path, "10.0.0.2")
            await until(lambda: discovery.error is None)
    assert addresses(pool) == ["10.0.0.2:8000"]
    assert [e["event"] for e in logs].count("discovery.failed") == 2


async def test_a_file_that_vanishes_and_returns_unchanged_is_no_error_any_more(
    path: Path,
) -> None:
    write(path, "10.0.0.1")
    pool = Pool()
    discovery = make(path, pool)
    await discovery.load()
    async with following(discovery):
        rename(path, path.with_suffix(".away"))
        await until(lambda: discovery.error is not None)
        assert addresses(pool) == ["10.0.0.1:8000"]
        rename(path.with_suffix(".away"), path)
        await until(lambda: discovery.error is None)


@pytest.mark.parametrize("watched", [True, False])
async def test_another_file_can_take_its_place(path: Path, watched: bool) -> None:
    write(path, "10.0.0.1")
    other = path.with_name("other.yaml")
    pool = Pool()
    discovery = make(path, pool, watch_file=watched)
    await discovery.load()
    async with following(discovery):
        discovery.follow(path, watch_file=watched)
        discovery.follow(other, watch_file=watched)
        await until(lambda: discovery.error is not None)
        assert addresses(pool) == ["10.0.0.1:8000"]
        write(other, "10.0.0.2")
        await until(lambda: addresses(pool) == ["10.0.0.2:8000"])
        assert discovery.error is None


async def test_a_file_that_is_not_watched_is_not_read_again(path: Path, names: Names) -> None:
    names.addresses["host-a"] = ["10.0.0.1"]
    write(path, "host-a")
    pool = Pool()
    discovery = make(path, pool, watch_file=False)
    await discovery.load()
    async with following(discovery):
        write(path, "10.0.0.9")
        names.addresses["host-a"] = ["10.0.0.2"]
        await until(lambda: addresses(pool) == ["10.0.0.2:8000"])


async def test_ipv4_is_preferred_and_other_addresses_are_ignored(path: Path, names: Names) -> None:
    names.addresses |= {"both": ["::1", "10.0.0.1", "10.0.0.2"], "six": ["fe80::1%2", "::2"]}
    write(path, "both", "six")
    pool = Pool()
    await make(path, pool).load()
    assert [(e.host, e.address) for e in pool.snapshot()] == [
        ("both", "10.0.0.1:8000"),
        ("both", "10.0.0.2:8000"),
        ("six", "[::2]:8000"),
    ]


async def test_a_name_that_does_not_resolve_is_skipped_until_it_does(
    path: Path, names: Names
) -> None:
    write(path, "10.0.0.1", "nowhere")
    pool = Pool()
    discovery = make(path, pool)
    with capture_logs() as logs:
        await discovery.load()
        assert discovery.synced
        assert addresses(pool) == ["10.0.0.1:8000"]
        assert discovery.warnings == ("$.endpoints[1]: left out: nowhere does not resolve",)
        async with following(discovery):
            await until(lambda: names.asked > 3)
            names.addresses["nowhere"] = ["10.0.0.2"]
            await until(lambda: addresses(pool) == ["10.0.0.1:8000", "10.0.0.2:8000"])
    assert list(discovery.warnings) == []
    assert [e["event"] for e in logs].count("discovery.left_out") == 1


async def test_a_hostname_keeps_its_address_while_it_does_not_resolve(
    path: Path, names: Names
) -> None:
    names.addresses["host-a"] = ["10.0.0.1"]
    write(path, "host-a")
    pool = Pool()
    discovery = make(path, pool)
    await discovery.load()
    names.addresses = {}
    async with following(discovery):
        asked = names.asked
        await until(lambda: names.asked > asked + 2)
        assert addresses(pool) == ["10.0.0.1:8000"]
        names.addresses["host-a"] = ["10.0.0.3"]
        await until(lambda: addresses(pool) == ["10.0.0.3:8000"])


async def test_every_address_of_a_hostname_is_an_endpoint_and_keeps_what_is_known(
    path: Path, names: Names
) -> None:
    names.addresses["engines"] = ["10.0.0.1"]
    write(path, "engines")
    pool = Pool()
    discovery = make(path, pool)
    await discovery.load()
    pool.scraped("10.0.0.1:8000", EngineMetrics(waiting=4))
    async with following(discovery):
        names.addresses["engines"] = ["10.0.0.2", "10.0.0.1"]
        await until(lambda: len(pool.snapshot()) == 2)
        assert [(e.name, e.address) for e in pool.snapshot()] == [
            ("e0", "10.0.0.1:8000"),
            ("e0-10.0.0.2", "10.0.0.2:8000"),
        ]
        assert pool.snapshot()[0].metrics == EngineMetrics(waiting=4)
        names.addresses["engines"] = ["10.0.0.2"]
        await until(lambda: addresses(pool) == ["10.0.0.2:8000"])


async def test_localhost_resolves_on_this_machine(path: Path) -> None:
    write(path, "localhost")
    pool = Pool()
    await make(path, pool).load()
    assert pool.snapshot() in [
        (Endpoint(name="e0", host="localhost", address=f"{ip}:8000"),)
        for ip in ("127.0.0.1", "[::1]")
    ]
