"""Claims: blocks that a holder told by name only, until somebody says what the name stands for."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import msgspec

from indexer.block import Holder

MAX_CLAIMS = 65536
"""Names per holder; a tier that is told by names only has about as many blocks."""


class Place(NamedTuple):
    """Where a claimed block lies: the key of its shelf."""

    tier: str
    unit: int
    group: int | None


class Claimed(msgspec.Struct, frozen=True):
    """What a name was told for, where it stands for nothing yet.

    Attributes:
        copies: Times it was told.
    """

    name: int
    place: Place
    copies: int


_Waiting = dict[int, dict[Place, int]]
"""Name → place → copies."""


class Claims:
    def __init__(self, max_names: int = MAX_CLAIMS) -> None:
        self._max_names = max_names
        self._waiting: dict[Holder, _Waiting] = {}

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def add(self, holder: Holder, name: int, place: Place) -> bool:
        """Keep a claim; False if the holder's oldest gave way to it."""
        waiting = self._waiting.setdefault(holder, {})
        copies = waiting.setdefault(name, {})
        copies[place] = copies.get(place, 0) + 1
        if len(waiting) <= self._max_names:
            return True
        del waiting[next(iter(waiting))]
        return False

    def of(self, holder: Holder) -> Collection[int]:
        """The names that a holder's claims wait for."""
        return self._waiting.get(holder, ())

    def take(self, holder: Holder, name: int) -> Mapping[Place, int]:
        """Hand out, and forget, what waits for a name."""
        waiting = self._waiting.get(holder, {})
        taken = waiting.pop(name, {})
        if not waiting:
            self._waiting.pop(holder, None)
        return taken

    def kept(self, holder: Holder) -> Sequence[Claimed]:
        """For `restore`."""
        waiting = self._waiting.get(holder, {})
        return [
            Claimed(n, place, c) for n, copies in waiting.items() for place, c in copies.items()
        ]

    def restore(self, holder: Holder, claimed: Claimed) -> None:
        """Keep a claim that was kept elsewhere; the holder's own come after."""
        copies = self._waiting.setdefault(holder, {}).setdefault(claimed.name, {})
        copies[claimed.place] = claimed.copies

    def discard(self, holder: Holder, name: int, tier: str, group: int | None) -> None:
        """One copy is gone."""
        copies = self.take(holder, name)
        place = next((p for p in copies if (p.tier, p.group) == (tier, group)), None)
        for kept, count in copies.items():
            for _ in range(count - (kept == place)):
                self.add(holder, name, kept)

    def clear(self, holder: Holder) -> None:
        self._waiting.pop(holder, None)

    def clear_tier(self, holder: Holder, tier: str) -> None:
        for name in list(self._waiting.get(holder, ())):
            for place, count in self.take(holder, name).items():
                if place.tier != tier:
                    for _ in range(count):
                        self.add(holder, name, place)
