"""Window: how much counters grew lately, from a few snapshots of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable, Mapping

WINDOW_S = 300.0
"""What is forgotten is one to two of these old."""


class Window:
    """Told of all counters now and then; says how much one grew over the last minutes."""

    def __init__(self, now: float) -> None:
        self._snapshots: deque[tuple[float, dict[Hashable, float]]] = deque([(now, {})])

    @property
    def since(self) -> float:
        """Unix time from which on growth counts."""
        return self._snapshots[0][0]

    def due(self, now: float) -> bool:
        """Whether a snapshot should be taken."""
        return now - self._snapshots[-1][0] >= WINDOW_S

    def take(self, now: float, counters: Mapping[Hashable, float]) -> None:
        """Remember these values; the oldest ones are forgotten."""
        self._snapshots.append((now, dict(counters)))
        if len(self._snapshots) > 2:
            self._snapshots.popleft()

    def knows(self, key: Hashable) -> bool:
        """Whether growth of this counter has a beginning."""
        return key in self._snapshots[0][1]

    def begin(self, key: Hashable, value: float) -> None:
        """What somebody else counts stands at this value: growth counts from here."""
        for _, snapshot in self._snapshots:
            snapshot[key] = value

    def forget(self, address: str) -> None:
        """What is counted of this endpoint is of no more interest."""
        for _, snapshot in self._snapshots:
            gone = [key for key in snapshot if isinstance(key, tuple) and address in key]
            for key in gone:
                del snapshot[key]

    def growth(self, key: Hashable, value: float) -> float:
        """How much a counter that stands at `value` grew; one that fell began anew.

        A counter without a beginning is one of ours, and began at zero.
        """
        before = self._snapshots[0][1].get(key, 0.0)
        return value - before if value >= before else value


class Lasting:
    """Since when something has been so without a break."""

    def __init__(self) -> None:
        self._since: dict[Hashable, float] = {}

    def follow(self, now: float, true: set[Hashable]) -> None:
        """These are so now, and nothing else is."""
        self._since = {key: self._since.get(key, now) for key in true}

    def for_s(self, now: float, key: Hashable) -> float:
        """How long it has been so; 0 where it is not."""
        return now - self._since.get(key, now)
