"""A conductor with its sockets and its memory on disk. IO."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import msgspec
import structlog

from indexer.conductor.conductor import Conductor, Duplicate
from indexer.conductor.registry import Registration
from indexer.conductor.wire import Malformed
from indexer.conductor.workers import faults
from indexer.prefix_index import PrefixIndex
from indexer.sockets import Context
from indexer.subscriber import Subscriptions

WATCH_S = 1.0
"""Between two looks at what registered engines send."""

FILE_NAME = "conductor.json"

log = structlog.get_logger(__name__)


class ConductorService:
    """Reads the streams that registrations name and keeps the registrations.

    Attributes:
        failed: Times the registrations could not be written.
    """

    def __init__(
        self,
        conductor: Conductor,
        context: Context,
        folder: Path | None = None,
        follow_first: Callable[[], None] | None = None,
        first: PrefixIndex | None = None,
    ) -> None:
        """`follow_first` follows the registrations of the index `first`, which others read for."""
        self.conductor = conductor
        self.failed = 0
        self._context = context
        self._path = folder / FILE_NAME if folder is not None else None
        self._follow_first = follow_first
        self._first = first
        self._subscriptions: dict[int, Subscriptions] = {}
        self._saving = asyncio.Lock()
        self._told: frozenset[str] = frozenset()

    def restore(self) -> None:
        """Take the kept registrations up again."""
        if self._path is None:
            return
        try:
            kept = msgspec.json.decode(self._path.read_bytes(), type=list[Registration])
        except FileNotFoundError:
            return
        except (OSError, msgspec.DecodeError) as error:
            log.warning("conductor.state_ignored", path=str(self._path), reason=str(error))
            return
        for registration in kept:
            try:
                self.conductor.add(registration)
            except (Duplicate, Malformed) as error:
                log.warning("conductor.registration_ignored", reason=str(error))
        self.sync()
        log.info("conductor.restored", registrations=len(kept))

    async def changed(self) -> None:
        """Registrations came or went: read what they name, and keep them."""
        self.sync()
        if self._path is not None:
            async with self._saving:
                await asyncio.to_thread(self._write, self._path, self._encoded())

    def sync(self) -> None:
        """Open the sockets that are wanted and not open; clears nothing."""
        for block_size, index in self.conductor.indexes.items():
            if index is self._first and self._follow_first is not None:
                self._follow_first()
                continue
            if block_size not in self._subscriptions:
                self._subscriptions[block_size] = Subscriptions(self._context, index)
            self._subscriptions[block_size].sync(self.conductor.sources(block_size))

    async def run(self) -> None:
        """Say what is wrong with registrations, once each, until cancelled."""
        while True:
            found = frozenset(faults(self.conductor))
            for fault in sorted(found - self._told):
                log.warning("conductor.fault", text=fault)
            self._told = found
            await asyncio.sleep(WATCH_S)

    def close(self) -> None:
        for subscriptions in self._subscriptions.values():
            subscriptions.close()

    def _encoded(self) -> bytes:
        told = [each for each in self.conductor.registry if each.is_told]
        return msgspec.json.encode(told)

    def _write(self, path: Path, data: bytes) -> None:
        """All or nothing, whatever happens meanwhile."""
        beside = path.with_suffix(".part")
        try:
            with beside.open("wb") as file:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            beside.replace(path)
        except OSError as error:
            self.failed += 1
            log.warning("conductor.state_not_kept", path=str(path), error=str(error))
