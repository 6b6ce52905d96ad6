"""Media in a rendered prompt: an answer's hashes and places by kind become items in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from router.producers.facts import MediaItem


class Place(Protocol):
    """Where an item lies."""

    @property
    def offset(self) -> int: ...

    @property
    def length(self) -> int: ...


def items(
    hashes: Mapping[str, Sequence[str]], places: Mapping[str, Sequence[Place]]
) -> Sequence[MediaItem]:
    """By offset. An item without a place, or a place without an item, is left out."""
    found = [
        MediaItem(name, place.offset, place.length)
        for kind, names in hashes.items()
        for name, place in zip(names, places.get(kind, ()), strict=False)
    ]
    return sorted(found, key=lambda item: item.offset)
