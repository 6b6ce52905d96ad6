"""Laws of real tokenizers: every shortcut gives the ids of the tokenizers library."""

# ruff: noqa: RUF001 - characters that look like others are here on purpose

from __future__ import annotations

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tests.support import npm_models
from tests.tokenizer_sidecar.any_text import any_text
from tests.tokenizer_sidecar.disk import TINY
from tokenizer_sidecar.encode import Encoder
from tokenizer_sidecar.post_processing import pack

MODELS = ("tiny", *npm_models.NAMES)
FAST = ("tiny", "qwen3", "llama3_1", "gptoss", "deepseek_v3")

PIECE_CHARS = 24
"""So that even short texts are cut many times."""


@cache
def library(name: str) -> Tokenizer:
    return Tokenizer.from_file(str(folder(name) / "tokenizer.json"))


@cache
def encoder(name: str, cache_bytes: int = 1 << 22) -> Encoder:
    content = (folder(name) / "tokenizer.json").read_bytes()
    return Encoder(
        Tokenizer.from_buffer(content), content, cache_bytes=cache_bytes, piece_chars=PIECE_CHARS
    )


def folder(name: str) -> Path:
    return TINY if name == "tiny" else npm_models.directory(name)


@cache
def added(name: str) -> Sequence[str]:
    tokens = json.loads((folder(name) / "tokenizer.json").read_bytes())["added_tokens"]
    return [token["content"] for token in tokens]


def texts(name: str) -> st.SearchStrategy[str]:
    """With the model's own special tokens among them."""
    return any_text(added(name))


def expected(name: str, text: str, *, special: bool = False) -> list[int]:
    (encoding,) = library(name).encode_batch_fast([text], add_special_tokens=special)
    ids: list[int] = encoding.ids
    return ids


some = settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.parametrize("name", MODELS)
def test_the_method_is_the_best_that_holds_for_the_model(name: str) -> None:
    method = encoder(name).method
    assert method.incremental, method
    assert method.fast == (name in FAST), method
    if not method.fast:
        assert "Replace" in str(method)


@pytest.mark.parametrize("name", FAST)
@some
@given(st.data())
def test_fast_is_slow(name: str, data: st.DataObject) -> None:
    text = data.draw(texts(name))
    fast = encoder(name).found.fast
    assert fast is not None
    assert fast.encode(text) == pack(expected(name, text))


@pytest.mark.parametrize("name", MODELS)
@some
@given(st.data())
def test_pieces_give_the_ids_of_the_whole(name: str, data: st.DataObject) -> None:
    text = data.draw(texts(name))
    special = data.draw(st.booleans())
    ids = encoder(name).encode(text, add_special_tokens=special)
    assert ids == expected(name, text, special=special)


@pytest.mark.parametrize("name", MODELS)
@some
@given(st.data())
def test_turns_in_any_order_and_any_state_of_the_cache_give_the_ids_of_the_whole(
    name: str, data: st.DataObject
) -> None:
    turns = data.draw(st.lists(texts(name), min_size=1, max_size=6))
    ends = data.draw(st.lists(st.integers(1, len(turns)), min_size=1, max_size=6))
    # Room for a dozen pieces: everything is forgotten again and again.
    small = encoder(name, cache_bytes=1 << 13)
    for end in ends:
        text = "".join(turns[:end])
        assert small.encode(text, add_special_tokens=False) == expected(name, text)


@pytest.mark.parametrize("name", MODELS)
@some
@given(st.data())
def test_texts_that_begin_alike_have_the_same_first_pieces(name: str, data: st.DataObject) -> None:
    cutter = encoder(name).found.cutter
    assert cutter is not None
    shared, more, other = (data.draw(texts(name)) for _ in range(3))
    ours, theirs = (list(cutter.pieces(shared + end)) for end in (more, other))
    assert "".join(ours) == shared + more
    same = 0
    for our, their in zip(ours, theirs, strict=False):
        if our != their:
            break
        same += len(our)
    unlike = next(
        (i for i, pair in enumerate(zip(more, other, strict=False)) if len(set(pair)) > 1), 0
    )
    # All pieces that end well before the first difference: whether a place is one depends on the
    # characters behind it, and on a special token that may just be beginning there.
    longest = max(*map(len, added(name)), PIECE_CHARS)
    whole = [end for end in _ends(ours) if end < len(shared) + unlike - longest]
    assert same >= max(whole, default=0)


def _ends(pieces: Sequence[str]) -> list[int]:
    ends, at = [], 0
    for piece in pieces:
        at += len(piece)
        ends.append(at)
    return ends


@pytest.mark.parametrize("name", MODELS)
def test_every_character_beside_every_kind_of_other(name: str) -> None:
    characters = [chr(c) for c in range(0x20, 0x3400) if not chr(c).isspace()]
    for form in ("{0}a {0}1 ", "a{0} b{0}\n", " {0}\n{0}{0}", "1{0}，{0}好", "'{0}"):
        text = "".join(form.format(character) for character in characters)
        assert encoder(name).encode(text, add_special_tokens=False) == expected(name, text)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("length", [100_000])
@pytest.mark.parametrize("unit", [" ", "\n", "a", "1", "好", "😀", " \n", "-"], ids=ascii)
def test_long_runs(name: str, unit: str, length: int) -> None:
    if name == "gemma3" and unit == "a":
        length //= 20
    text = f"x {unit * length} y"
    assert encoder(name).encode(text, add_special_tokens=False) == expected(name, text)
