"""Follows the configuration file: what is right takes effect, what is not changes nothing. IO."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

import structlog

from router.config.errors import ConfigError
from router.config.load import Config, load
from warmroute.errors import StartError

INTERVAL_S = 1.0
"""Between two looks at the file."""

SETTLE_S = 0.05
"""A file that changes again in this time is still being written."""

log = structlog.get_logger()

_Version = tuple[int, int, int]


class ConfigWatch:
    """Hands every new version of the file on, if it can run.

    Attributes:
        config: What is in force.
        error: Why the file as it is now is not in force; None where it is.
        reloads: Versions that took effect since the start.
        failures: Versions that could not.
    """

    def __init__(
        self,
        path: Path | None,
        config: Config,
        adopt: Callable[[Config], Awaitable[None]],
        *,
        interval_s: float = INTERVAL_S,
    ) -> None:
        """`adopt` raises StartError, and then nothing has changed. Without a path nothing is
        followed."""
        self.config = config
        self.error: str | None = None
        self.reloads = 0
        self.failures = 0
        self._path = path
        self._adopt = adopt
        self._interval_s = interval_s
        self._version = None if path is None else _version(path)

    @property
    def warnings(self) -> tuple[str, ...]:
        """What of the configuration in force does not have the effect somebody may hope for."""
        return self.config.warnings

    async def run(self) -> None:
        """Look again and again until cancelled."""
        while self._path is not None:
            await asyncio.sleep(self._interval_s)
            await self._look(self._path)

    async def _look(self, path: Path) -> None:
        version = _version(path)
        if version == self._version:
            return
        await asyncio.sleep(SETTLE_S)
        if _version(path) != version:
            return
        self._version = version
        try:
            config = load(await asyncio.to_thread(path.read_text), self.config.plugins)
            await self._adopt(config)
        except (OSError, UnicodeDecodeError, ConfigError, StartError) as error:
            self.failures += 1
            self.error = str(error)
            log.error("config.reload_failed", path=str(path), reason=self.error)
            return
        self.config, self.error = config, None
        self.reloads += 1
        log.info("config.reloaded", path=str(path))
        tell(config)


def tell(config: Config) -> None:
    """Log what its author should know."""
    for warning in config.warnings:
        log.warning("config.warning", text=warning)


def _version(path: Path) -> _Version | None:
    """None where there is no such file."""
    try:
        stat = os.stat(path)
    except OSError:
        return None
    # The inode tells a file that was replaced by another one of the same size and time.
    return stat.st_mtime_ns, stat.st_size, stat.st_ino
