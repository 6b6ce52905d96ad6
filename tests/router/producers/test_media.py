from __future__ import annotations

import msgspec
import pytest

from router.producers import media
from router.producers.facts import MediaItem


class Place(msgspec.Struct, frozen=True):
    offset: int
    length: int


def test_items_of_every_kind_come_in_the_order_of_the_prompt() -> None:
    hashes = {"image": ["b", "a"], "audio": ["c"]}
    places = {"image": [Place(40, 8), Place(4, 30)], "audio": [Place(36, 2)]}
    expected = [
        MediaItem("a", 4, 30, "image"),
        MediaItem("c", 36, 2, "audio"),
        MediaItem("b", 40, 8, "image"),
    ]
    assert media.items(hashes, places, 48) == expected
    assert media.items({}, {}, 0) == []


@pytest.mark.parametrize(
    ("hashes", "places"),
    [
        (["a", "b"], [Place(0, 1)]),
        (["a"], [Place(0, 1), Place(2, 1)]),
        ([], [Place(0, 1)]),
        (["a"], []),
        (["a"], [Place(-1, 1)]),
        (["a"], [Place(3, -1)]),
        (["a"], [Place(8, 3)]),
        (["a"], [Place(0, 2**40)]),
    ],
    ids=str,
)
def test_items_that_cannot_be_those_of_the_prompt_are_an_error(
    hashes: list[str], places: list[Place]
) -> None:
    with pytest.raises(ValueError, match=r"zip\(\)|no place"):
        media.items({"image": hashes}, {"image": places}, 10)
