"""Snapshots: keeps an index on disk, so that the next router starts with what this one knew. IO."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from urllib.parse import quote

import structlog

from indexer import snapshot
from indexer.central import Key
from indexer.conductor.conductor import Conductor
from indexer.prefix_index import PrefixIndex
from indexer.snapshot import NotUsable, Stream, Taken
from router.pool.pool import Pool
from router.producers.prefix import PrecisePrefix
from warmroute.errors import StartError

log = structlog.get_logger(__name__)


def check_folder(folder: Path) -> None:
    """Raises StartError where nothing can be kept there."""
    if not os.access(folder, os.W_OK | os.X_OK) or not folder.is_dir():
        raise StartError(f"--state-dir: {folder} is no folder that can be written to")


class Snapshots:
    """One index's file.

    Attributes:
        path: The file.
        failed: Snapshots that could not be written.
    """

    def __init__(
        self,
        path: Path,
        index: PrefixIndex,
        *,
        process_start: Callable[[str], float | None] = lambda _: None,
        reopen: Callable[[Stream], None] = lambda _: None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`process_start` tells when the engine at an address started, `reopen` opens streams that
        only their senders' first messages would, `clock` gives seconds since the epoch."""
        self.path = path
        self.failed = 0
        self._index = index
        self._process_start = process_start
        self._reopen = reopen
        self._clock = clock

    def restore(self) -> None:
        """Put back what was kept of the streams that are open and over which nothing was heard."""
        index = self._index
        try:
            data = self.path.read_bytes()
        except FileNotFoundError:
            return
        except OSError as error:
            log.warning("snapshot.ignored", path=str(self.path), reason=str(error))
            return
        try:
            kept = snapshot.decode(data, index.block_size, self._clock())
        except NotUsable as reason:
            log.warning("snapshot.ignored", path=str(self.path), reason=str(reason))
            return
        for stream in kept.streams:
            self._reopen(stream)
        streams = snapshot.restore(index, kept, snapshot.matching(kept, index.feeds()))
        log.info("snapshot.restored", streams=streams, of=len(kept.streams))

    async def run(self, interval_s: float) -> None:
        """Write one again and again until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            await self.save()

    async def save(self) -> None:
        """Write one now, off the loop."""
        taken = snapshot.take(self._index, self._process_start)
        try:
            await asyncio.to_thread(self._write, taken, self._clock())
        except OSError as error:
            self.failed += 1
            log.warning("snapshot.failed", path=str(self.path), error=str(error))

    def _write(self, taken: Taken, written_at: float) -> None:
        """All or nothing, whatever happens meanwhile."""
        data = snapshot.encode(taken, written_at)
        beside = self.path.with_suffix(".part")
        with beside.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(self.path)


def of_router(
    folder: Path, prefix: PrecisePrefix, pool: Pool, clock: Callable[[], float] = time.time
) -> Snapshots:
    """A router's, in a folder. Raises StartError where that is unusable."""
    check_folder(folder)

    def process_start(address: str) -> float | None:
        endpoint = pool.get(address)
        return endpoint.metrics.process_start if endpoint and endpoint.metrics else None

    def reopen(stream: Stream) -> None:
        if prefix.central is not None and stream.endpoint == prefix.zmq_endpoint:
            prefix.central.open(Key(stream.address, (*stream.models, "")[0], stream.rank))

    return Snapshots(
        folder / f"index-{quote(prefix.name, safe='')}.snapshot",
        prefix.index,
        process_start=process_start,
        reopen=reopen,
        clock=clock,
    )


class ConductorSnapshots:
    """Those of a conductor's indexes, one for each block size."""

    def __init__(self, folder: Path, conductor: Conductor) -> None:
        self._folder = folder
        self._conductor = conductor
        self._kept: dict[int, Snapshots] = {}

    def restore(self) -> None:
        """Put back what was kept; the registrations must be there, and their streams open."""
        for kept in self._each():
            kept.restore()

    async def run(self, interval_s: float) -> None:
        """Write them again and again until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            await self.save()

    async def save(self) -> None:
        """Write all now, off the loop."""
        for kept in self._each():
            await kept.save()

    def _each(self) -> Sequence[Snapshots]:
        for size, index in self._conductor.indexes.items():
            if size not in self._kept:
                path = self._folder / f"conductor-{size}.snapshot"
                self._kept[size] = Snapshots(path, index)
        return list(self._kept.values())
