"""Keeps the list of engines that may be called: the endpoints file and hostnames. IO."""

from __future__ import annotations

import asyncio
import logging
import socket
from pathlib import Path

from pd_sidecar.allow import AllowList, ListingError, is_ip, listed
from pd_sidecar.stats import Stats

INTERVAL_S = 1.0

RESOLVE_EVERY = 10
"""Looks between two resolutions of unchanged hostnames."""

RESOLVE_TIMEOUT_S = 5.0

log = logging.getLogger(__name__)


class Watch:
    """Follows the file of one proxy; a broken one leaves the last good list in force."""

    def __init__(
        self, allow: AllowList, path: Path | None, stats: Stats, interval_s: float = INTERVAL_S
    ) -> None:
        self._allow = allow
        self._path = path
        self._stats = stats
        self._interval_s = interval_s
        self._text: bytes | None = None

    async def load(self) -> None:
        """Read once. Raises ListingError or OSError."""
        if self._path is not None:
            self._text = await asyncio.to_thread(self._path.read_bytes)
            self._allow.list(listed(self._text))
        await self._resolve()

    async def run(self) -> None:
        """Follow file and hostnames until cancelled."""
        looks = 0
        while True:
            await asyncio.sleep(self._interval_s)
            looks += 1
            if await self._changed() or looks % RESOLVE_EVERY == 0:
                await self._resolve()

    async def _changed(self) -> bool:
        if self._path is None:
            return False
        try:
            text = await asyncio.to_thread(self._path.read_bytes)
            if text == self._text:
                return False
            self._text = text
            self._allow.list(listed(text))
        except (OSError, ListingError) as error:
            self._stats.listing_failures += 1
            log.warning("allow_list.failed", extra={"path": str(self._path), "why": str(error)})
            return False
        return True

    async def _resolve(self) -> None:
        hosts = sorted({host for host, _ in self._allow.named if not is_ip(host)})
        found = await asyncio.gather(*(_look_up(host) for host in hosts))
        self._allow.resolve(dict(zip(hosts, found, strict=True)))


async def _look_up(host: str) -> list[str]:
    try:
        async with asyncio.timeout(RESOLVE_TIMEOUT_S):
            answers = await asyncio.get_running_loop().getaddrinfo(
                host, None, type=socket.SOCK_STREAM
            )
    except (OSError, UnicodeError):
        return []
    return [str(answer[4][0]) for answer in answers if "%" not in str(answer[4][0])]
