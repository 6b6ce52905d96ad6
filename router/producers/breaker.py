"""A circuit breaker: after several failures in a row, leave it alone for a while.

closed ──failures──► open ──time──► one probe ──► closed, or open for twice as long
"""

from __future__ import annotations

from collections.abc import Callable

FAILURES = 5
"""In a row, until the breaker opens."""

FIRST_PAUSE_S = 1.0
LONGEST_PAUSE_S = 10.0


class Breaker:
    """`allows` before a call, `record` after each one that was allowed."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives monotonic seconds."""
        self._clock = clock
        self._failures = 0
        self._pause_s = FIRST_PAUSE_S
        self._open_until: float | None = None

    @property
    def is_open(self) -> bool:
        """No success since it opened."""
        return self._open_until is not None

    def allows(self) -> bool:
        """Whether to call now. Of those that ask after a pause, the first one is the probe."""
        if self._open_until is None:
            return True
        now = self._clock()
        if now < self._open_until:
            return False
        self._open_until = now + self._pause_s
        return True

    def record(self, *, failed: bool) -> None:
        """What became of a call."""
        if not failed:
            self._failures, self._pause_s, self._open_until = 0, FIRST_PAUSE_S, None
            return
        self._failures += 1
        if self._failures < FAILURES:
            return
        if self._failures > FAILURES and self._open_until is not None:
            self._pause_s = min(2 * self._pause_s, LONGEST_PAUSE_S)
        self._open_until = self._clock() + self._pause_s
