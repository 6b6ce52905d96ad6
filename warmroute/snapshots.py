"""Snapshots: keeps an index on disk, so that the next router starts with what this one knew. IO."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from pathlib import Path
from urllib.parse import quote

import structlog

from indexer import snapshot
from indexer.central import Key
from indexer.snapshot import NotUsable, Taken
from router.pool.pool import Pool
from router.producers.prefix import PrecisePrefix
from warmroute.errors import StartError

log = structlog.get_logger(__name__)


def check_folder(folder: Path) -> None:
    """Raises StartError where nothing can be kept there."""
    if not os.access(folder, os.W_OK | os.X_OK) or not folder.is_dir():
        raise StartError(f"--state-dir: {folder} is no folder that can be written to")


class Snapshots:
    """One index's file in a folder.

    Attributes:
        path: The file.
        failed: Snapshots that could not be written.
    """

    def __init__(
        self,
        folder: Path,
        prefix: PrecisePrefix,
        pool: Pool,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """`clock` gives seconds since the epoch. Raises StartError where the folder is unusable."""
        check_folder(folder)
        self.path = folder / f"index-{quote(prefix.name, safe='')}.snapshot"
        self.failed = 0
        self._prefix = prefix
        self._pool = pool
        self._clock = clock

    def restore(self) -> None:
        """Put back what was kept; the streams must be open, and nothing heard over them yet."""
        index = self._prefix.index
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
        central = self._prefix.central
        for stream in kept.streams:
            if central is not None and stream.endpoint == self._prefix.zmq_endpoint:
                central.open(Key(stream.address, (*stream.models, "")[0], stream.rank))
        streams = snapshot.restore(index, kept, snapshot.matching(kept, index.feeds()))
        log.info("snapshot.restored", streams=streams, of=len(kept.streams))

    async def run(self, interval_s: float) -> None:
        """Write one again and again until cancelled."""
        while True:
            await asyncio.sleep(interval_s)
            await self.save()

    async def save(self) -> None:
        """Write one now, off the loop."""
        taken = snapshot.take(self._prefix.index, self._process_start)
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

    def _process_start(self, address: str) -> float | None:
        endpoint = self._pool.get(address)
        return endpoint.metrics.process_start if endpoint and endpoint.metrics else None
