"""The words of the index."""

from __future__ import annotations

import pytest

from indexer.block import Holder, Identity, Match, Trust


def test_values_cannot_be_changed() -> None:
    for value, field in (
        (Identity("m"), "model"),
        (Holder("a"), "rank"),
        (Match(0, {}, 0), "blocks"),
    ):
        with pytest.raises(AttributeError):
            setattr(value, field, None)


def test_ranks_behind_one_address_are_holders_of_their_own_and_sort_together() -> None:
    assert Holder("a") == Holder("a", 0)
    assert sorted([Holder("b"), Holder("a", 1), Holder("a")]) == [
        Holder("a"),
        Holder("a", 1),
        Holder("b"),
    ]


def test_trust_is_told_by_the_words_that_answers_use() -> None:
    assert [str(trust) for trust in Trust] == ["exact", "partial", "stale"]
