from __future__ import annotations

import msgspec

from router.producers import media
from router.producers.facts import MediaItem


class Place(msgspec.Struct, frozen=True):
    offset: int
    length: int


def test_items_of_every_kind_come_in_the_order_of_the_prompt() -> None:
    hashes = {"image": ["b", "a"], "audio": ["c"]}
    places = {"image": [Place(40, 8), Place(4, 30)], "audio": [Place(36, 2)]}
    expected = [MediaItem("a", 4, 30), MediaItem("c", 36, 2), MediaItem("b", 40, 8)]
    assert media.items(hashes, places) == expected


def test_what_has_no_place_or_no_hash_is_left_out() -> None:
    assert media.items({"image": ["a", "b"], "audio": ["c"]}, {"image": [Place(0, 1)]}) == [
        MediaItem("a", 0, 1)
    ]
    assert media.items({}, {"image": [Place(0, 1)]}) == []
