"""Follows an endpoints file, and the addresses of the hostnames in it, into a pool. IO."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Iterable, Mapping
from pathlib import Path

import structlog

from router.pool.discovery.file import (
    MAX_FILE_BYTES,
    DiscoveryError,
    Listing,
    locate,
    parse,
)
from router.pool.discovery.hosts import Named, renewed
from router.pool.discovery.schema import ModelRewrite
from router.pool.pool import Pool

RESOLVE_INTERVAL_S = 10.0
RESOLVE_TIMEOUT_S = 5.0
"""A hostname that takes longer counts as one that does not resolve."""

SETTLE_S = 0.05
"""A file that changes again in this time is still being written."""

log = structlog.get_logger()

_Version = tuple[int, int, int]


class FileDiscovery:
    """Keeps a pool as an endpoints file says.

    Without `watch_file` only the hostnames are followed. A file that becomes unreadable or wrong
    changes nothing, and is reported once. Each address of a hostname is an endpoint. One stays
    while it is among the hostname's addresses, and while that does not resolve at all: an endpoint
    that moves without need would lose all that is known of its cache.

    Attributes:
        synced: The file was read once and the pool holds its endpoints.
        failures: Attempts to read it again that failed.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        pool: Pool,
        *,
        interval_s: float = 1.0,
        resolve_interval_s: float = RESOLVE_INTERVAL_S,
        watch_file: bool = True,
    ) -> None:
        self.synced = False
        self.failures = 0
        self._path = Path(path)
        self._pool = pool
        self._interval_s = interval_s
        self._resolve_interval_s = resolve_interval_s
        self._watch_file = watch_file
        self._moved = False
        self._listing = Listing()
        self._version: _Version | None = None
        self._addresses: dict[str, Named] = {}
        self._resolve_due_s = 0.0
        self._warnings: tuple[str, ...] = ()
        self._error: str | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """The endpoints that are left out now, and why."""
        return self._warnings

    @property
    def error(self) -> str | None:
        """Why the file as it is now is not in force; None where it is."""
        return self._error

    @property
    def objectives(self) -> Mapping[str, int]:
        """Priority by name of the objective."""
        return self._listing.objectives

    @property
    def model_rewrites(self) -> tuple[ModelRewrite, ...]:
        """Rewrite rules in order of precedence."""
        return self._listing.model_rewrites

    def follow(self, path: str | os.PathLike[str], *, watch_file: bool) -> None:
        """Go on with that file from the next look on; until it was read, with what there is."""
        if (self._path, self._watch_file) == (Path(path), watch_file):
            return
        self._moved = self._path != Path(path)
        self._path, self._watch_file = Path(path), watch_file
        if self._moved:
            self._version = None

    async def load(self) -> None:
        """Read the file and fill the pool. Raises DiscoveryError."""
        # Without a file there is no version, so that one that comes back is read again.
        self._version = None
        text, self._version = await asyncio.to_thread(_read, self._path)
        self._listing = await asyncio.to_thread(parse, text, str(self._path))
        await self._publish()
        self._moved = False
        self.synced = True
        self._error = None
        log.info("discovery.loaded", path=str(self._path), endpoints=len(self._pool.snapshot()))

    async def run(self) -> None:
        """Follow the file and the hostnames until cancelled. The file need not exist yet."""
        while True:
            await self._look()
            await asyncio.sleep(self._interval_s)

    async def _look(self) -> None:
        """Take over what changed since the last look."""
        if self._watch_file or self._moved:
            version = _version_of(self._path)
            if version is None or version != self._version:
                await self._reload()
        due = asyncio.get_running_loop().time() >= self._resolve_due_s
        if due and self._listing.hostnames():
            await self._publish()

    async def _reload(self) -> None:
        version = _version_of(self._path)
        await asyncio.sleep(SETTLE_S)
        if _version_of(self._path) != version:
            return
        try:
            await self.load()
        except DiscoveryError as error:
            self.failures += 1
            text = str(error)
            if text != self._error:
                log.warning("discovery.failed", path=str(self._path), reason=text)
            self._error = text

    async def _publish(self) -> None:
        """Resolve the hostnames and hand the endpoints to the pool."""
        self._resolve_due_s = asyncio.get_running_loop().time() + self._resolve_interval_s
        self._addresses = await _resolve(self._listing.hostnames(), self._addresses)
        endpoints, unresolved = locate(self._listing.entries, self._addresses)
        warnings = self._listing.warnings + unresolved
        for warning in warnings:
            if warning not in self._warnings:
                log.warning("discovery.left_out", path=str(self._path), reason=warning)
        self._warnings = warnings
        self._pool.replace(endpoints)


def _read(path: Path) -> tuple[bytes, _Version]:
    """The file's content, and which version of it that is. Raises DiscoveryError."""
    try:
        with path.open("rb") as file:
            return file.read(MAX_FILE_BYTES + 1), _version(os.fstat(file.fileno()))
    except OSError as error:
        raise DiscoveryError(f"{path}: {error.strerror}") from error


def _version_of(path: Path) -> _Version | None:
    """None where there is no such file."""
    try:
        return _version(os.stat(path))
    except OSError:
        return None


def _version(stat: os.stat_result) -> _Version:
    # The inode tells a file that was replaced by another one of the same size and time.
    return stat.st_mtime_ns, stat.st_size, stat.st_ino


async def _resolve(hostnames: Iterable[str], known: Mapping[str, Named]) -> dict[str, Named]:
    """The IP addresses of each hostname that has any."""
    async with asyncio.TaskGroup() as group:
        lookups = {host: group.create_task(_look_up(host)) for host in hostnames}
    named = {host: renewed(known.get(host, {}), found.result()) for host, found in lookups.items()}
    return {host: addresses for host, addresses in named.items() if addresses}


async def _look_up(host: str) -> list[str]:
    """The IP addresses of a hostname; none where it does not resolve."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(RESOLVE_TIMEOUT_S):
            answers = await loop.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return []
    # An address with a zone means something on this machine only.
    return [str(answer[4][0]) for answer in answers if "%" not in str(answer[4][0])]
