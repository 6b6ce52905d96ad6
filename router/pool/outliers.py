"""Endpoints whose last answers all failed are left alone for a while, as long as others exist.

A dead engine fails at once, so by its load it looks better than any that works. Scrapes find out
only after three of them, and of an engine that was never scraped not at all; its answers tell
sooner. A scrape that succeeds after the failures ends the wait: the engine is there, just busy.
Of prefills that fail a scrape says nothing: there the wait is waited out.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec

from router.pool.endpoint import Endpoint

FAILURES = 3
"""Failed answers in a row, until an endpoint is kept out."""

OUT_S = 10.0
"""How long it is kept out before it is tried again."""

FAILED_STATUSES = frozenset({502, 503, 504})
"""What Envoy answers where an engine cannot be reached, and an engine that is not itself."""


class _Streak(msgspec.Struct):
    failures: int = 0
    last_failed_at: float = 0.0


class Outliers:
    """Told of every answer; asked before every pick."""

    def __init__(self, clock: Callable[[], float], *, scrapes_tell: bool = True) -> None:
        """`clock` gives Unix time, as the endpoints' scrapes have it.

        With `scrapes_tell` a scrape that succeeds after the failures ends the wait.
        """
        self._clock = clock
        self._scrapes_tell = scrapes_tell
        self._streaks: dict[str, _Streak] = {}

    def answered(self, address: str, status: int) -> None:
        """A response of an endpoint began."""
        self.came(address, failed=status in FAILED_STATUSES)

    def came(self, address: str, *, failed: bool) -> None:
        """A result of an endpoint."""
        if not failed:
            self._streaks.pop(address, None)
            return
        streak = self._streaks.setdefault(address, _Streak())
        streak.failures += 1
        streak.last_failed_at = self._clock()

    def kept_out(self, endpoint: Endpoint) -> bool:
        """Whether an endpoint should not be picked now."""
        streak = self._streaks.get(endpoint.address)
        if streak is None or streak.failures < FAILURES:
            return False
        told = endpoint.metrics if self._scrapes_tell else None
        scraped_at = told.scraped_at if told else 0.0
        if scraped_at > streak.last_failed_at or self._clock() - streak.last_failed_at > OUT_S:
            del self._streaks[endpoint.address]
            return False
        return True

    def out(self, endpoints: Sequence[Endpoint]) -> list[Endpoint]:
        """Those that are kept out now."""
        if not self._streaks:
            return []
        return [endpoint for endpoint in endpoints if self.kept_out(endpoint)]

    def without(self, endpoints: Sequence[Endpoint]) -> Sequence[Endpoint]:
        """The endpoints that are not kept out; all of them where none is left."""
        if not self._streaks:
            return endpoints
        return [e for e in endpoints if not self.kept_out(e)] or endpoints
