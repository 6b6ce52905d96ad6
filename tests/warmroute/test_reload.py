"""The configuration file is followed: what is right takes effect, what is not changes nothing."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from router.config.load import Config, load
from tests.support.processes import until
from warmroute.errors import StartError
from warmroute.reload import ConfigWatch

HEAD = "apiVersion: llm-d.ai/v1alpha1\nkind: EndpointPickerConfig\n"
QUEUE = f"{HEAD}plugins: [{{type: queue-scorer}}]\n"
KV = f"{HEAD}plugins: [{{type: kv-cache-utilization-scorer}}]\n"


def write(path: Path, text: str | None) -> None:
    if text is None:
        path.unlink()
    else:
        path.write_text(text)


class Follower:
    """Takes over what it is given, or refuses."""

    def __init__(self, path: Path) -> None:
        self.adopted: list[list[str]] = []
        self.refuses = False
        self.watch = ConfigWatch(path, load(path.read_text()), self._adopt, interval_s=0.01)

    async def _adopt(self, config: Config) -> None:
        if self.refuses:
            raise StartError("the port is taken")
        self.adopted.append(list(config.plugins))


@asynccontextmanager
async def following(path: Path) -> AsyncIterator[Follower]:
    follower = Follower(path)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(follower.watch.run())
        yield follower
        task.cancel()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "epp.yaml"
    file.write_text(QUEUE)
    return file


async def test_a_file_that_changes_takes_effect(path: Path) -> None:
    async with following(path) as follower:
        write(path, KV)
        await until(lambda: follower.watch.reloads == 1)
        assert follower.adopted == [["kv-cache-utilization-scorer"]]
        assert list(follower.watch.config.plugins) == ["kv-cache-utilization-scorer"]
        assert follower.watch.error is None


async def test_a_file_that_another_takes_the_place_of_is_followed(path: Path) -> None:
    async with following(path) as follower:
        new = path.with_suffix(".new")
        new.write_text(KV)
        new.replace(path)
        await until(lambda: follower.watch.reloads == 1)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f"{HEAD}plugins: [{{type: que-scorer}}]\n", "did you mean 'queue-scorer'?"),
        ("", "the configuration is empty"),
        (None, "No such file"),
    ],
    ids=["typo", "empty", "gone"],
)
async def test_what_cannot_run_changes_nothing_and_is_reported_once(
    path: Path, text: str | None, said: str
) -> None:
    async with following(path) as follower:
        running = follower.watch.config
        with capture_logs() as logs:
            write(path, text)
            await until(lambda: follower.watch.failures == 1)
            await asyncio.sleep(0.1)
        assert [entry["event"] for entry in logs] == ["config.reload_failed"]
        assert said in str(follower.watch.error)
        assert follower.watch.config is running
        assert follower.adopted == []
        write(path, KV)
        await until(lambda: follower.watch.reloads == 1)
        assert follower.watch.error is None


async def test_what_cannot_start_changes_nothing(path: Path) -> None:
    async with following(path) as follower:
        follower.refuses = True
        write(path, KV)
        await until(lambda: follower.watch.failures == 1)
        assert follower.watch.error == "the port is taken"
        assert list(follower.watch.config.plugins) == ["queue-scorer"]


async def test_warnings_are_those_of_what_is_in_force(path: Path) -> None:
    async with following(path) as follower:
        assert follower.watch.warnings == ()
        write(path, f"{HEAD}featureGates: [flowControl]\nplugins: [{{type: queue-scorer}}]\n")
        with capture_logs() as logs:
            await until(lambda: follower.watch.reloads == 1)
        assert len(follower.watch.warnings) == 1
        assert [entry["event"] for entry in logs] == ["config.reloaded", "config.warning"]


class Nobody:
    async def adopt(self, config: Config) -> None:
        raise AssertionError


async def test_without_a_file_nothing_is_followed() -> None:
    watch = ConfigWatch(None, load(QUEUE), Nobody().adopt)
    await asyncio.wait_for(watch.run(), 5)
