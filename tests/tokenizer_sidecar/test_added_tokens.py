"""Added tokens are found as the tokenizers library finds them."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import AddedToken as LibraryToken
from tokenizers import Tokenizer, models, normalizers

from tokenizer_sidecar.added_tokens import AddedTokens, any_of
from tokenizer_sidecar.errors import Unproven
from tokenizer_sidecar.tokenizer_json import AddedToken

_TEXTS = st.text("ab<|", min_size=1, max_size=4)
_TOKENS = st.dictionaries(_TEXTS, st.booleans(), max_size=5)


def found(tokens: dict[str, bool], *, special: bool = True) -> AddedTokens:
    """Tokens by whether they are looked for in normalized text, which is all in upper case."""
    given_ = [AddedToken(content=c, normalized=n, special=special) for c, n in tokens.items()]
    return AddedTokens(given_, {c: i for i, c in enumerate(tokens)}, str.upper)


def by_library(tokens: dict[str, bool], text: str) -> list[str]:
    """The ids and texts the library makes: a model without merges shows what is left over."""
    characters = {c: i for i, c in enumerate("ab<|AB", start=100)}
    tokenizer = Tokenizer(models.BPE(characters, []))
    tokenizer.normalizer = normalizers.Replace("a", "A")
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.Replace("a", "A"), normalizers.Replace("b", "B")]
    )
    tokenizer.add_tokens([LibraryToken(c, normalized=n) for c, n in tokens.items()])
    ids = {tokenizer.token_to_id(c): f"#{i}" for i, c in enumerate(tokens)}
    names = ids | {i: c for c, i in characters.items()}
    # A token of one character is that character's entry.
    encoding = tokenizer.encode(text)
    return [names[i] for i in encoding.ids]


@given(_TOKENS, st.text("ab<|", max_size=30))
def test_the_library_finds_the_same(tokens: dict[str, bool], text: str) -> None:
    tokens = {content: normalized for content, normalized in tokens.items() if len(content) > 1}
    shown: list[str] = []
    for part in found(tokens).split(text):
        shown += [f"#{part}"] if isinstance(part, int) else list(part)
    assert shown == by_library(tokens, text)


@given(st.lists(st.text("abc.", min_size=1, max_size=5), min_size=1), st.text("abc.", max_size=20))
def test_the_longest_text_at_a_place_is_taken(texts: list[str], text: str) -> None:
    match = re.compile(any_of(texts)).match(text)
    longest = max((t for t in texts if text.startswith(t)), key=len, default=None)
    assert (match.group() if match else None) == longest


@pytest.mark.parametrize("flag", ["lstrip", "rstrip", "single_word"])
def test_tokens_that_depend_on_their_surroundings_are_not_handled(flag: str) -> None:
    token = AddedToken(content="<m>", **{flag: True})
    with pytest.raises(Unproven, match="<m>"):
        AddedTokens([token], {"<m>": 1}, str.upper)


@given(st.sets(_TEXTS, min_size=1, max_size=5), st.text("ab<|", max_size=30))
def test_a_separator_is_one_wherever_it_stands(contents: set[str], text: str) -> None:
    tokens = found(dict.fromkeys(sorted(contents), False))
    starts: set[int] = set()
    at = 0
    for part in tokens.split(text):
        if isinstance(part, int):
            starts.add(at)
            at += len(sorted(contents)[part])
        else:
            at += len(part)
    for separator in tokens.separators:
        for place in range(len(text)):
            if text.startswith(separator, place):
                assert place in starts


def test_usual_special_tokens_are_separators_and_other_tokens_are_not() -> None:
    usual = dict.fromkeys(["<|im_start|>", "<|im_end|>", "</s>"], False)
    assert found(usual).separators == set(usual)
    assert found(usual, special=False).separators == set()
    assert found({"<s>": True}).separators == set()


@given(st.sets(_TEXTS, min_size=1, max_size=4), st.text("ab<|", max_size=30))
def test_texts_that_are_apart_are_found_in_any_order(contents: set[str], text: str) -> None:
    tokens = found(dict.fromkeys(sorted(contents), False))
    if not tokens.apart:
        return
    in_order = {sorted(contents)[part] for part in tokens.split(text) if isinstance(part, int)}
    assert tokens.found_in(text) == in_order
    for ordered in (sorted(contents), sorted(contents, reverse=True)):
        assert set(re.findall("|".join(map(re.escape, ordered)), text)) == in_order


def test_usual_special_tokens_are_apart_and_those_that_begin_alike_or_overlap_are_not() -> None:
    assert found(dict.fromkeys(["<|im_start|>", "<|im_end|>", "</s>"], False)).apart
    assert not found({"<a": False, "<a>": False}).apart
    assert not found({"<a<": False, "<b": False}).apart
    assert found({}).apart
    assert found({}).found_in("a") == set()


def test_a_text_that_normalizing_changes_does_not_stand_alone() -> None:
    assert found({"<|>": False}).stand_alone("A<|>B")
    assert not found({"<|>": False}).stand_alone("a<|>B")
    assert not found({"<": False, "<|>": False}).stand_alone("A")
