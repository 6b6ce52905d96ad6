"""Stopwatch: how long each stage of one request took."""

from __future__ import annotations

from collections.abc import Callable


class Stopwatch:
    """
    Attributes:
        times_ms: Stage -> milliseconds.
    """

    __slots__ = ("_clock", "_since", "times_ms")

    def __init__(self, clock: Callable[[], float]) -> None:
        """`clock` gives seconds."""
        self.times_ms: dict[str, float] = {}
        self._clock = clock
        self._since = clock()

    def lap(self, stage: str) -> None:
        """What happened since the last call, or the start, was this stage."""
        now = self._clock()
        self.times_ms[stage] = (now - self._since) * 1e3
        self._since = now
