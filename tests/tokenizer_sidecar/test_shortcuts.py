"""Which shortcuts are taken for which tokenizers, and why not."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from typing import Any

import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from tests.tokenizer_sidecar.disk import TINY
from tokenizer_sidecar import sample
from tokenizer_sidecar.encode import Encoder
from tokenizer_sidecar.shortcuts import _IN_NFC

Change = Callable[[dict[str, Any]], object]

TEXT = "Hello there, wörld!  1234 你好。\n\n<|im_start|>user don't\n"


def changed(change: Change) -> tuple[Encoder, Tokenizer]:
    file = json.loads((TINY / "tokenizer.json").read_bytes())
    change(file)
    content = json.dumps(file).encode()
    return Encoder(Tokenizer.from_buffer(content), content), Tokenizer.from_buffer(content)


def split(pattern: str, **fields: Any) -> dict[str, Any]:
    step = {"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False}
    return {**step, **fields}


def byte_level(*steps: dict[str, Any], **fields: Any) -> dict[str, Any]:
    plain = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True}
    last = {**plain, "use_regex": not steps, **fields}
    return {"type": "Sequence", "pretokenizers": [*steps, last]}


def added(**fields: Any) -> Change:
    return lambda file: file["added_tokens"][0].update(fields)


FAST: dict[str, Change] = {
    "as it is": lambda file: None,
    "GPT-2's pattern": lambda file: file.update(pre_tokenizer=byte_level()),
    "another pattern": lambda file: file.update(pre_tokenizer=byte_level(split(r"\w+|\W+"))),
    "NFC": lambda file: file.update(normalizer={"type": "NFC"}),
    "whole pieces looked up first": lambda file: file["model"].update(ignore_merges=True),
    "a token in normalized text": added(normalized=True),
    "no special tokens": lambda file: file.update(added_tokens=[]),
}

SLOW: dict[str, tuple[Change, str]] = {
    "a space in front": (
        lambda file: file.update(pre_tokenizer=byte_level(use_regex=True, add_prefix_space=True)),
        "ByteLevel",
    ),
    "another normalizer": (
        lambda file: file.update(normalizer={"type": "NFKC"}),
        "NFKC",
    ),
    "a prefix": (
        lambda file: file.update(normalizer={"type": "Prepend", "prepend": "x"}),
        "Prepend",
    ),
    "a look behind": (
        lambda file: file.update(pre_tokenizer=byte_level(split(r"(?<=a)b|."))),
        "not understood",
    ),
    "pieces that are taken out": (
        lambda file: file.update(pre_tokenizer=byte_level(split(r"\s+", behavior="Removed"))),
        "Split",
    ),
    "a token that takes space": (added(lstrip=True), "depends on what stands around it"),
    "a token for whole words": (added(single_word=True), "depends on what stands around it"),
    "chance": (lambda file: file["model"].update(dropout=0.5), "at random"),
}


@pytest.mark.parametrize("change", FAST.values(), ids=FAST.keys())
def test_both_shortcuts_are_taken_and_give_the_same_ids(change: Change) -> None:
    encoder, library = changed(change)
    assert encoder.method.fast, encoder.method
    assert encoder.method.incremental, encoder.method
    assert str(encoder.method) == "tiktoken, in pieces"
    for text in [TEXT * 200, *sample.texts(["<|im_start|>"])]:
        assert encoder.encode(text, add_special_tokens=True) == library.encode(text).ids


@pytest.mark.parametrize(("change", "why"), SLOW.values(), ids=SLOW.keys())
def test_where_one_is_not_proven_the_library_is_asked_and_the_reason_said(
    change: Change, why: str
) -> None:
    encoder, library = changed(change)
    assert not encoder.method.fast
    assert not encoder.method.incremental
    assert why in encoder.method.why_slow
    assert str(encoder.method).startswith("tokenizers (")
    if "random" not in why:
        ids = encoder.encode(TEXT * 200, add_special_tokens=True)
        assert ids == library.encode(TEXT * 200).ids


def test_merges_that_tiktoken_would_do_otherwise_are_left_to_the_library() -> None:
    def change(file: dict[str, Any]) -> None:
        model = file["model"]
        model["ignore_merges"] = True
        # Two letters that merges never join, but tiktoken would, as the entry is there.
        model["vocab"]["qx"] = len(model["vocab"]) + 100

    encoder, library = changed(change)
    assert not encoder.method.fast
    assert encoder.method.incremental
    for text in ("qx", "aqxb", "qxqx qx", TEXT):
        assert encoder.encode(text, add_special_tokens=True) == library.encode(text).ids


def sentencepiece_like(normalizer: normalizers.Normalizer) -> Tokenizer:
    characters = [chr(c) for c in range(0x21, 0x7F)] + ["\u2581", "\n", "\t"]
    merges = [("\u2581", "t"), ("h", "e"), ("\u2581t", "he")]
    entries = [*characters, *("".join(pair) for pair in merges)]
    tokenizer = Tokenizer(models.BPE({entry: i for i, entry in enumerate(entries)}, merges))
    tokenizer.normalizer = normalizer
    return tokenizer


def test_models_without_a_pre_tokenizer_are_cut_where_no_entry_goes_on() -> None:
    tokenizer = sentencepiece_like(normalizers.Replace(" ", "\u2581"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    encoder = Encoder(tokenizer)
    assert not encoder.method.fast
    assert encoder.method.incremental
    text = "over the lazy dog, the quick\n" * 600
    assert encoder.found.cutter is not None
    assert len(list(encoder.found.cutter.pieces(text))) > 3
    assert encoder.encode(text, add_special_tokens=False) == tokenizer.encode(text).ids


def test_such_models_with_a_prefix_are_encoded_whole() -> None:
    both = [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    encoder = Encoder(sentencepiece_like(normalizers.Sequence(both)))
    assert not encoder.method.incremental
    text = "the quick brown fox, " * 500
    ids = encoder.encode(text, add_special_tokens=False)
    assert ids == sentencepiece_like(normalizers.Sequence(both)).encode(text).ids
    assert encoder.encode(text, add_special_tokens=False) == ids
    assert encoder.cache_stats().hit_tokens == len(ids)


def test_characters_taken_for_unchanged_by_nfc_are() -> None:
    seconds = {
        chr(int(unicodedata.decomposition(chr(c)).split()[1], 16))
        for c in range(0x110000)
        if len(unicodedata.decomposition(chr(c)).split()) == 2
        and not unicodedata.decomposition(chr(c)).startswith("<")
    }
    for code in range(0x110000):
        if _IN_NFC.fullmatch(chr(code)):
            assert unicodedata.combining(chr(code)) == 0, hex(code)
            assert unicodedata.is_normalized("NFC", chr(code)), hex(code)
            assert chr(code) not in seconds, hex(code)
