"""Where texts are cut: pieces of the right length at places where nothing goes on."""

# ruff: noqa: RUF001 - characters that look like others are here on purpose

from __future__ import annotations

from functools import cache
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenizer_sidecar.splits import PATTERNS, TEXTS, library_pieces, pattern
from tokenizer_sidecar.added_tokens import AddedTokens
from tokenizer_sidecar.cuts import (
    GROUPS,
    Cutter,
    between_added,
    between_entries,
    between_pieces,
)
from tokenizer_sidecar.tokenizer_json import AddedToken, BpeModel

SPECIAL = "<|end|>"
none_added = AddedTokens([], {}, str)
end_added = AddedTokens(
    [AddedToken(content=SPECIAL, special=True, normalized=False)], {SPECIAL: 1}, str
)


def joined(found: object, left: str, right: str) -> bool:
    at = [next(i for i, group in enumerate(GROUPS) if c in group) for c in (left, right)]
    return bool(found[at[0], at[1]])  # type: ignore[index]


@cache
def everywhere(name: str) -> Cutter:
    """Cuts at every place there is."""
    return Cutter(between_pieces(pattern(name)), none_added, piece_chars=1)


@pytest.mark.parametrize("name", PATTERNS)
@settings(deadline=None, max_examples=300)
@given(st.data())
def test_splitting_pieces_is_splitting_the_whole(name: str, data: st.DataObject) -> None:
    text = data.draw(TEXTS)
    pieces = [
        part for piece in everywhere(name).pieces(text) for part in library_pieces(name, piece)
    ]
    assert pieces == library_pieces(name, text)


@pytest.mark.parametrize("name", PATTERNS)
@settings(deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=3), TEXTS, st.integers(1, 12))
def test_what_is_expected_changes_no_piece(
    name: str, seen: list[str], text: str, piece_chars: int
) -> None:
    places = between_pieces(pattern(name)) | between_added(end_added)
    cutter = Cutter(places, end_added, piece_chars=piece_chars)
    # Whatever was seen: pieces of the same text, of other texts, and of those that begin alike.
    following = {
        before: behind
        for known in (text, *seen, text + seen[0])
        for before, behind in pairwise(cutter.pieces(known))
    }
    assert list(cutter.pieces(text, following)) == list(cutter.pieces(text))


def test_a_piece_that_is_expected_is_given_out_itself() -> None:
    cutter = Cutter(between_pieces(pattern("llama3")), none_added, piece_chars=5)
    text = "some words that make pieces"
    first, second, *_ = cutter.pieces(text)
    _, found, *_ = cutter.pieces(text, {first: second})
    assert found is second


@pytest.mark.parametrize("name", ["gpt2", "llama3", "o200k", "deepseek"])
def test_words_sentences_and_lines_can_be_told_apart(name: str) -> None:
    found = between_pieces(pattern(name))
    assert not joined(found, "a", " ")
    assert not joined(found, ".", " ")
    assert not joined(found, "a", "\n")
    assert not joined(found, "好", "，")
    assert not joined(found, "a", "\n")
    assert joined(found, "a", "b")
    assert joined(found, " ", "a")


def test_a_line_s_end_is_a_place_only_where_the_pattern_says_so() -> None:
    assert joined(between_pieces(pattern("gpt2")), "\n", "a")
    assert not joined(between_pieces(pattern("llama3")), "\n", "a")


def test_an_entry_with_both_sides_joins_them() -> None:
    spaces = {" ": "\u2581"}
    entries = {c: i for i, c in enumerate("\u2581".join(("", *GROUPS)).replace(" ", ""))}
    model = BpeModel(vocab={**entries, "\u2581a": 90_000, "b\u25811": 90_001}, merges=[])
    found = between_entries(model, lambda text: spaces.get(text, text))
    assert joined(found, " ", "a")
    assert joined(found, "a", " ")
    assert joined(found, " ", "1")
    assert not joined(found, "1", "a")
    assert not joined(found, ".", " ")


def test_characters_the_model_does_not_know_are_no_places_unless_they_become_bytes() -> None:
    entries = {c: i for i, c in enumerate("".join(GROUPS)) if c != "好"}
    unknown = BpeModel(vocab=entries, merges=[])
    assert joined(between_entries(unknown, str), "好", "，")
    single = {f"<0x{value:02X}>": 90_000 + value for value in range(256)}
    as_bytes = BpeModel(vocab=entries | single, merges=[], byte_fallback=True)
    assert not joined(between_entries(as_bytes, str), "好", "，")
    merged = BpeModel(
        vocab=as_bytes.vocab | {"<0x00>a": 99_999}, merges=[("<0x00>", "a")], byte_fallback=True
    )
    assert joined(between_entries(merged, str), "好", "，")


def test_characters_that_normalize_alike_are_no_places() -> None:
    entries = {c: i for i, c in enumerate("".join(GROUPS))}
    found = between_entries(BpeModel(vocab=entries, merges=[]), lambda c: "," if c == "." else c)
    assert joined(found, ".", "a")
    assert not joined(found, "-", "a")


def test_an_added_token_joins_what_stands_side_by_side_in_it() -> None:
    found = between_added(end_added)
    assert joined(found, "|", "e")
    assert joined(found, "d", "|")
    assert not joined(found, "e", ">")


def test_pieces_are_of_the_wanted_length() -> None:
    words = "word " * 2000
    lengths = list(map(len, Cutter(between_pieces(pattern("llama3")), none_added).pieces(words)))
    assert sum(lengths) == len(words)
    assert all(4096 <= length < 4110 for length in lengths[:-1])


def test_a_special_token_begins_a_piece() -> None:
    cutter = Cutter(between_pieces(pattern("llama3")) | between_added(end_added), end_added)
    pieces = list(cutter.pieces(f"{'word ' * 100}{SPECIAL}{'word ' * 100}{SPECIAL}"))
    assert [piece[:7] for piece in pieces] == ["word wo", f"{SPECIAL}", f"{SPECIAL}"]


def test_special_tokens_close_together_stay_in_one_piece() -> None:
    cutter = Cutter(between_pieces(pattern("llama3")) | between_added(end_added), end_added)
    assert len(list(cutter.pieces(SPECIAL * 30))) == 1


def test_a_text_without_places_stays_whole_and_takes_no_longer_for_its_length() -> None:
    cutter = Cutter(between_pieces(pattern("llama3")) | between_added(end_added), end_added)
    assert list(cutter.pieces("x" * 100_000)) == ["x" * 100_000]
    # Each special token begins a piece, and no piece looks for other places up to the end again.
    many = (SPECIAL + "x" * 300) * 10_000
    assert len(list(cutter.pieces(many))) == 10_000


def test_an_empty_text_is_one_piece() -> None:
    assert list(Cutter(between_pieces(pattern("llama3")), none_added).pieces("")) == [""]
