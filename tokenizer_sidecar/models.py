"""The models the sidecar serves, loaded beside the serving and again after failures. IO."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import Executor
from functools import partial
from pathlib import Path

import msgspec
import structlog

from tokenizer_sidecar.cache import CacheStats
from tokenizer_sidecar.errors import ModelError, Panic, without_panics
from tokenizer_sidecar.renderers import AnyRenderer, load
from tokenizer_sidecar.stats import Stats

log = structlog.get_logger(__name__)


class Backoff(msgspec.Struct, frozen=True):
    """
    Attributes:
        first_s: Wait after the first failed attempt; doubled after each further one.
        most_s: Longest wait.
    """

    first_s: float = 1.0
    most_s: float = 60.0

    def wait_s(self, failures: int) -> float:
        """How long to wait after so many failures in a row."""
        return min(self.most_s, self.first_s * 2.0 ** min(failures - 1, 32))


class Entry(msgspec.Struct, frozen=True):
    """One model: its renderer, or why there is none yet."""

    renderer: AnyRenderer | None
    message: str


class Models:
    """Name to Entry, filled in while `keep_loading` runs.

    Args:
        load: Reads one directory; raises ModelError where that may work later.
    """

    def __init__(
        self,
        directories: Mapping[str, Path],
        stats: Stats,
        backoff: Backoff,
        load: Callable[[Path], AnyRenderer] = load,
    ) -> None:
        self._directories = directories
        self._load_one = load
        self._stats = stats
        self._backoff = backoff
        self._entries = dict.fromkeys(directories, Entry(renderer=None, message="still loading"))

    @property
    def entries(self) -> Mapping[str, Entry]:
        """All models by name, as they are now."""
        return self._entries

    def missing(self) -> dict[str, str]:
        """Of every model, what keeps it from being ready; empty where nothing does."""
        return {name: entry.message for name, entry in self._entries.items()}

    def cache_stats(self) -> dict[str, CacheStats]:
        """Of every model that is ready, how often texts had been seen before."""
        return {
            name: entry.renderer.cache_stats()
            for name, entry in self._entries.items()
            if entry.renderer is not None
        }

    async def keep_loading(self, executor: Executor) -> None:
        """Load every model; return once all are there."""
        async with asyncio.TaskGroup() as group:
            for name in self._directories:
                group.create_task(self._load(name, executor))

    async def _load(self, name: str, executor: Executor) -> None:
        loop = asyncio.get_running_loop()
        failures = 0
        while True:
            try:
                directory = self._directories[name]
                load = partial(self._load_one, directory)
                renderer = await loop.run_in_executor(executor, partial(without_panics, load))
            except (ModelError, Panic) as error:
                failures += 1
                wait_s = self._backoff.wait_s(failures)
                self._stats.load_failures[name] += 1
                self._entries[name] = Entry(renderer=None, message=str(error))
                log.warning("model.load_failed", model=name, error=str(error), retry_in_s=wait_s)
                await asyncio.sleep(wait_s)
            else:
                self._entries[name] = Entry(renderer=renderer, message="")
                log.info("model.loaded", model=name, encoding=renderer.method)
                return
