"""Vocabularies for tiktoken: the same ids as the tokenizers library, or none at all."""

# ruff: noqa: RUF001 - characters that look like others are here on purpose

from __future__ import annotations

from collections.abc import Sequence

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import models, pre_tokenizers

from tokenizer_sidecar.byte_bpe import ranks
from tokenizer_sidecar.errors import Unproven
from tokenizer_sidecar.tokenizer_json import BpeModel

ALPHABET = sorted(pre_tokenizers.ByteLevel.alphabet())

Pairs = Sequence[tuple[str, str]]


def model(pairs: Pairs, *, extra: Sequence[str] = (), ignore_merges: bool = False) -> BpeModel:
    """All single bytes, what the pairs make, and further entries."""
    entries = dict.fromkeys([*ALPHABET, *(a + b for a, b in pairs), *extra])
    vocab = {entry: id_ for id_, entry in enumerate(entries, start=7)}
    return BpeModel(vocab=vocab, merges=list(pairs), ignore_merges=ignore_merges)


def by_library(bpe: BpeModel, text: str) -> list[int]:
    library = models.BPE(bpe.vocab, bpe.pairs(), ignore_merges=bpe.ignore_merges)
    return [token.id for token in library.tokenize(text)]


def by_tiktoken(bpe: BpeModel, text: str) -> list[int]:
    found = ranks(bpe)
    encoding = tiktoken.Encoding(
        "test", pat_str="(?s:.+)", mergeable_ranks=dict(found.by_bytes), special_tokens={}
    )
    ids: list[int] = found.ids[encoding.encode_ordinary(text)].tolist()
    return ids


@st.composite
def merge_lists(draw: st.DrawFn) -> list[tuple[str, str]]:
    """Pairs in any order, of parts that exist; most make no trained tokenizer's vocabulary."""
    parts = ["a", "b", "c"]
    pairs: list[tuple[str, str]] = []
    for _ in range(draw(st.integers(0, 9))):
        pair = draw(st.tuples(st.sampled_from(parts), st.sampled_from(parts)))
        if pair not in pairs:
            pairs.append(pair)
            parts.append("".join(pair))
    return draw(st.permutations(pairs)) if draw(st.booleans()) else pairs


@settings(deadline=None, max_examples=400)
@given(merge_lists(), st.booleans(), st.lists(st.text("abc", min_size=1, max_size=12), min_size=1))
def test_for_any_merges_the_ids_are_those_of_the_library_or_there_is_no_proof(
    pairs: Pairs, ignore_merges: bool, texts: list[str]
) -> None:
    bpe = model(pairs, extra=["abca"], ignore_merges=ignore_merges)
    for text in texts:
        try:
            ids = by_tiktoken(bpe, text)
        except Unproven:
            return
        assert ids == by_library(bpe, text)


def test_an_entry_that_merges_never_make_is_left_out() -> None:
    # "bc" comes first, and nothing joins "a" to it.
    bpe = model([("b", "c"), ("a", "b"), ("ab", "c")])
    assert b"abc" not in ranks(bpe).by_bytes
    assert by_tiktoken(bpe, "abc") == by_library(bpe, "abc") == [bpe.vocab["a"], bpe.vocab["bc"]]


def test_such_an_entry_is_kept_for_whole_pieces_where_those_are_looked_up_first() -> None:
    bpe = model([("a", "b")], extra=["abcc"], ignore_merges=True)
    for text in ("abcc", "abccb", "aabcc"):
        assert by_tiktoken(bpe, text) == by_library(bpe, text)
    assert by_tiktoken(bpe, "abcc") == [bpe.vocab["abcc"]]


UNPROVEN = {
    "two parts that tiktoken would join": model([("a", "b")], extra=["abc"], ignore_merges=True),
    "an entry made at two different times": model(
        [("a", "b"), ("ab", "c"), ("b", "c"), ("a", "bc")]
    ),
    "a byte without an id": BpeModel(vocab={"a": 0}, merges=[]),
}


@pytest.mark.parametrize("bpe", UNPROVEN.values(), ids=UNPROVEN.keys())
def test_what_is_not_the_same_is_not_proven(bpe: BpeModel) -> None:
    with pytest.raises(Unproven):
        ranks(bpe)


def test_entries_that_no_text_can_match_are_left_out() -> None:
    bpe = model([], extra=["<｜begin▁of▁text｜>"])
    assert len(ranks(bpe).by_bytes) == 256
