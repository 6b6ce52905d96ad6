"""Text to ids: BOS, cutting, bad text, many threads, directories that cannot be used."""

from __future__ import annotations

import json
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer, processors

from tests.tokenizer_sidecar.disk import TINY, write_model
from tokenizer_sidecar.encode import Encoder, InvalidText, ModelError, Side
from tokenizer_sidecar.post_processing import pack

tiny = Encoder.load(TINY)

END = ("<|endoftext|>", 0)


@pytest.fixture
def with_bos(tmp_path: Path) -> Encoder:
    return Encoder.load(write_model(tmp_path / "bos"))


def test_ids_are_those_of_the_engine() -> None:
    assert tiny.encode("hello world", add_special_tokens=True) == [287, 82, 348, 1205, 1392]
    assert tiny.decode([287, 82, 348, 1205, 1392]) == "hello world"
    assert tiny.vocab_size == 8192


def test_bos_comes_from_the_post_processor_and_only_when_asked_for(with_bos: Encoder) -> None:
    plain = with_bos.encode("ab", add_special_tokens=False)
    assert len(plain) == 2
    begun = with_bos.encode("ab", add_special_tokens=True)
    assert begun[1:] == plain
    assert with_bos.decode(begun, skip_special_tokens=False) == "<s>ab"
    assert with_bos.decode(begun) == "ab"


@pytest.mark.parametrize(
    ("cut", "kept"), [("left", "<s>de"), ("right", "<s>ab")], ids=["left", "right"]
)
def test_cutting_spares_the_bos(with_bos: Encoder, cut: Side, kept: str) -> None:
    ids = with_bos.encode("abcde", add_special_tokens=True, max_tokens=3, cut=cut)
    assert with_bos.decode(ids, skip_special_tokens=False) == kept


@pytest.mark.parametrize("most", [0, 1, 2])
def test_a_tiny_limit_is_kept_even_by_special_tokens(with_bos: Encoder, most: int) -> None:
    assert len(with_bos.encode("abc", add_special_tokens=True, max_tokens=most)) == most


def test_a_limit_beyond_the_text_changes_nothing(with_bos: Encoder) -> None:
    whole = with_bos.encode("abc", add_special_tokens=True)
    assert with_bos.encode("abc", add_special_tokens=True, max_tokens=99) == whole


def test_truncation_and_padding_asked_for_by_the_file_are_ignored(tmp_path: Path) -> None:
    encoder = Encoder.load(write_model(tmp_path, bos=False, truncate_to=4))
    assert len(encoder.encode("a", add_special_tokens=True)) == 1
    assert len(encoder.encode("abcdefgh", add_special_tokens=True)) == 8


@pytest.mark.parametrize("text", ["\ud800", "a\udfffb", "\udc00\ud800"])
def test_half_a_surrogate_pair_is_refused(text: str) -> None:
    with pytest.raises(InvalidText, match="surrogate"):
        tiny.encode(text, add_special_tokens=True)


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60), st.integers(0, 70))
def test_a_cut_prompt_is_an_end_of_the_whole_one(text: str, most: int) -> None:
    whole = tiny.encode(text, add_special_tokens=False)
    left = tiny.encode(text, add_special_tokens=False, max_tokens=most, cut="left")
    right = tiny.encode(text, add_special_tokens=False, max_tokens=most, cut="right")
    assert left == whole[max(0, len(whole) - most) :]
    assert right == whole[:most]


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=60))
def test_ids_equal_the_library_s_plain_encode(text: str) -> None:
    plain = Tokenizer.from_file(str(TINY / "tokenizer.json"))
    assert tiny.encode(text, add_special_tokens=True) == plain.encode(text).ids


def test_many_threads_with_different_options_get_what_one_thread_gets(with_bos: Encoder) -> None:
    rng = random.Random(7)
    words = ["the", "quick", "brown", "fox", "über", "你好", "\n", "def", "f(x):", "return", "x"]

    def call(case: tuple[str, bool, int | None]) -> list[list[int]]:
        text, special, most = case
        return [
            encoder.encode(text, add_special_tokens=special, max_tokens=most)
            for encoder in (tiny, with_bos)
        ]

    cases = [
        (
            " ".join(rng.choices(words, k=int(10 ** rng.uniform(0, 3.3)))),
            rng.random() < 0.5,
            rng.choice([None, 0, 1, 100]),
        )
        for _ in range(600)
    ]
    serial = [call(case) for case in cases]
    with ThreadPoolExecutor(32) as pool:
        assert list(pool.map(call, cases)) == serial


def test_a_directory_without_tokenizer_json_is_converted(tmp_path: Path) -> None:
    model = json.loads((TINY / "tokenizer.json").read_text(encoding="utf-8"))["model"]
    merges = "\n".join(m if isinstance(m, str) else " ".join(m) for m in model["merges"])
    (tmp_path / "vocab.json").write_text(json.dumps(model["vocab"]), encoding="utf-8")
    (tmp_path / "merges.txt").write_text(f"#version: 0.2\n{merges}", encoding="utf-8")
    config = json.dumps({"tokenizer_class": "GPT2Tokenizer"})
    (tmp_path / "tokenizer_config.json").write_text(config, encoding="utf-8")
    text = "Hello there, world"
    converted = Encoder.load(tmp_path)
    assert converted.encode(text, add_special_tokens=True) == tiny.encode(
        text, add_special_tokens=True
    )


_WITHOUT_UNKNOWN = b'{"added_tokens": [], "model": {"type": "WordPiece", "vocab": {}, ' + (
    b'"unk_token": "?", "continuing_subword_prefix": "#", "max_input_chars_per_word": 9}}'
)
"""Loaded gladly by the library, which then fails on every text."""


@pytest.mark.parametrize("content", [None, b"{", b"{}", b"\xff", _WITHOUT_UNKNOWN], ids=repr)
def test_an_unusable_directory_is_an_error_of_one_line(
    tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_bytes(content)
    with pytest.raises(ModelError) as caught:
        Encoder.load(tmp_path)
    assert str(tmp_path / "tokenizer.json") in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match="no such directory"):
        Encoder.load(tmp_path / "nowhere")


def test_packed_ids_are_the_same_ids(with_bos: Encoder) -> None:
    for encoder, most in ((tiny, None), (with_bos, None), (with_bos, 3)):
        for special in (True, False):
            ids = encoder.encode("hello there", add_special_tokens=special, max_tokens=most)
            packed = encoder.encode_packed(
                "hello there", add_special_tokens=special, max_tokens=most
            )
            assert packed == pack(ids)


def test_a_post_processor_of_an_unknown_kind_is_asked_each_time() -> None:
    tokenizer = Tokenizer.from_file(str(TINY / "tokenizer.json"))
    first = processors.TemplateProcessing(single="<|endoftext|> $A", special_tokens=[END])
    tokenizer.post_processor = processors.Sequence([first, first])
    encoder = Encoder(tokenizer)
    assert not encoder.method.incremental
    for most in (None, 0, 1, 2, 99):
        expected = tokenizer.encode("hello there").ids
        ids = encoder.encode("hello there", add_special_tokens=True, max_tokens=most)
        assert ids == expected if most in (None, 99) else len(ids) <= most
    assert encoder.encode("hello", add_special_tokens=False) == tiny.encode(
        "hello", add_special_tokens=False
    )


def test_only_new_text_is_encoded() -> None:
    encoder = Encoder.load(TINY)
    text = " ".join(f"fox number {i} jumps over the lazy dog" for i in range(2000))
    ids = encoder.encode(text, add_special_tokens=False)
    before = encoder.cache_stats()
    assert before.new_tokens == len(ids)
    again = encoder.encode(text + " and then some", add_special_tokens=False)
    after = encoder.cache_stats()
    assert again[: len(ids)] == ids
    assert after.new_tokens - before.new_tokens < 1500
    assert after.hit_tokens - before.hit_tokens > len(ids) - 1500


def test_a_piece_that_comes_again_in_the_same_text_is_encoded_once() -> None:
    encoder = Encoder.load(TINY)
    text = "the quick brown fox jumps over the lazy dog " * 4000
    ids = encoder.encode(text, add_special_tokens=False)
    assert ids == Tokenizer.from_file(str(TINY / "tokenizer.json")).encode(text).ids
    assert encoder.cache_stats().new_tokens < len(ids) / 3


def test_a_text_too_large_for_its_cache_is_encoded_all_the_same() -> None:
    content = (TINY / "tokenizer.json").read_bytes()
    encoder = Encoder(Tokenizer.from_buffer(content), content, cache_bytes=0)
    assert encoder.encode("hello world", add_special_tokens=True) == [287, 82, 348, 1205, 1392]
    assert encoder.cache_stats().entries == 0


def test_offsets_are_places_in_the_text() -> None:
    text = "héllo world"
    ids, offsets = tiny.encode_with_offsets(text, add_special_tokens=False)
    assert ids == tiny.encode(text, add_special_tokens=False)
    assert offsets[0] == 0
    assert offsets[-1] == len(text)
    assert len(offsets) == 2 * len(ids)
    with pytest.raises(InvalidText):
        tiny.encode_with_offsets("\ud800", add_special_tokens=False)


def test_proofs_can_be_left_out_and_the_ids_stay_the_same() -> None:
    proven = Encoder.load(TINY)
    plain = Encoder.load(TINY, prove=False)
    assert proven.method.fast
    assert not plain.method.fast
    text = "def f(x):\n\treturn 'Gr\u00fc\u00dfe' <|im_end|>"
    assert plain.encode(text, add_special_tokens=True) == proven.encode(
        text, add_special_tokens=True
    )
