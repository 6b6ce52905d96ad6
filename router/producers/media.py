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
    hashes: Mapping[str, Sequence[str]], places: Mapping[str, Sequence[Place]], count: int
) -> Sequence[MediaItem]:
    """By offset. Raises ValueError where they cannot be those of a prompt of `count` tokens.

    To leave one out would be to take blocks with different media for the same.
    """
    found = [
        MediaItem(name, place.offset, place.length, kind)
        for kind in hashes.keys() | places.keys()
        for name, place in zip(hashes.get(kind, ()), places.get(kind, ()), strict=True)
    ]
    for item in found:
        if item.offset < 0 or item.length < 0 or item.offset + item.length > count:
            raise ValueError(f"no place for an item of {item.length} tokens at {item.offset}")
    return sorted(found, key=lambda item: item.offset)
