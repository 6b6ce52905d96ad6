"""Reading tokenizer.json as far as shortcuts depend on it."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from tests.tokenizer_sidecar.disk import TINY
from tokenizer_sidecar.errors import Unproven
from tokenizer_sidecar.tokenizer_json import read, steps


def file(**model: Any) -> bytes:
    return msgspec.json.encode({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], **model}})


def test_both_forms_of_merges_are_read_alike() -> None:
    old, new = file(merges=["a b", "ab c"]), file(merges=[["a", "b"], ["ab", "c"]])
    assert read(old).bpe().pairs() == read(new).bpe().pairs() == [("a", "b"), ("ab", "c")]


def test_the_bundled_tokenizer_is_read() -> None:
    json = read((TINY / "tokenizer.json").read_bytes())
    assert len(json.bpe().pairs()) == 7929
    assert [step["type"] for step in steps(json.pre_tokenizer, "pretokenizers")] == [
        "Split",
        "ByteLevel",
    ]


OTHER = {
    "another model": file(type="Unigram", vocab=[["a", -1.0]]),
    "another model of the same form": file(type="WordLevel"),
    "a suffix": file(end_of_word_suffix="</w>"),
    "a prefix": file(continuing_subword_prefix="##"),
    "chance": file(dropout=0.1),
}


@pytest.mark.parametrize("content", OTHER.values(), ids=OTHER.keys())
def test_other_models_are_not_taken_for_plain_byte_pair_encoding(content: bytes) -> None:
    with pytest.raises(Unproven):
        read(content).bpe()


@pytest.mark.parametrize("content", [b"{}", b"[]", b'{"model": {}, "added_tokens": 3}'])
def test_a_file_of_another_form_is_no_ground_for_shortcuts(content: bytes) -> None:
    with pytest.raises(Unproven):
        read(content)


def test_steps_of_nested_sequences_come_one_by_one() -> None:
    inner = {"type": "Sequence", "normalizers": [{"type": "NFC"}, {"type": "Replace"}]}
    outer = {"type": "Sequence", "normalizers": [inner, {"type": "Strip"}]}
    assert [step["type"] for step in steps(outer, "normalizers")] == ["NFC", "Replace", "Strip"]
    assert steps(None, "normalizers") == []
