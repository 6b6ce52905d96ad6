"""The encoder by tiktoken: special tokens, what it cannot do."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from tokenizers import Tokenizer

from tests.tokenizer_sidecar.disk import TINY
from tokenizer_sidecar.added_tokens import AddedTokens
from tokenizer_sidecar.byte_bpe import ranks
from tokenizer_sidecar.fast import FastEncoder
from tokenizer_sidecar.post_processing import pack
from tokenizer_sidecar.tokenizer_json import AddedToken, read

library = Tokenizer.from_file(str(TINY / "tokenizer.json"))
MODEL = read((TINY / "tokenizer.json").read_bytes()).bpe()
asked: list[str] = []


def slow(text: str) -> bytes:
    asked.append(text)
    return b"slow"


def encoder(pattern: str, *others: str) -> FastEncoder:
    tokens = [AddedToken(content=text, normalized=False) for text in ("<end>", *others)]
    ids = {token.content: 70_000 + i for i, token in enumerate(tokens)}
    return FastEncoder(pattern, ranks(MODEL), AddedTokens(tokens, ids, str), slow)


def test_special_tokens_stand_between_ordinary_text() -> None:
    found = encoder(r"[^ ]+| ").encode("a<end><end>b c")
    a, b, space, c = (MODEL.vocab[entry] for entry in ("a", "b", "Ġ", "c"))
    assert found == pack([a, 70_000, 70_000, b, space, c])


def test_empty_text_has_no_ids() -> None:
    assert encoder("a").encode("") == b""


def test_of_special_tokens_that_can_overlap_the_leftmost_and_longest_is_found() -> None:
    found = encoder(r"[^ ]+| ", "<end>>", "d>b")
    assert found.encode("<end>>b<end>b") == pack(
        [70_001, MODEL.vocab["b"], 70_000, MODEL.vocab["b"]]
    )


@pytest.mark.parametrize("others", [(), ("<end>>",)], ids=["apart", "overlapping"])
def test_pieces_of_a_run_have_the_ids_they_have_alone(others: Sequence[str]) -> None:
    pieces = ["a<end>", "b é好", " c", "<end>d", " ", "<end>"]
    found = encoder(r" ?[^ ]+| ", *others)
    assert found.encode_run(pieces) == [found.encode(piece) for piece in pieces]
    assert found.encode_run(pieces[:1]) == [found.encode("a<end>")]


def test_of_a_run_that_tiktoken_gives_up_on_only_that_piece_is_encoded_the_slow_way() -> None:
    asked.clear()
    long = " " * 3_000_000 + "a"
    found = encoder(r"\s+(?!\S)|\s+|\S+").encode_run(["b", long])
    assert found == [pack([MODEL.vocab["b"]]), b"slow"]
    assert asked == [long]


@pytest.mark.parametrize("text", [" " * 3_000_000 + "a"], ids=["space"])
def test_what_tiktoken_gives_up_on_is_encoded_the_slow_way(text: str) -> None:
    asked.clear()
    assert encoder(r"\s+(?!\S)|\s+|\S+").encode(text) == b"slow"
    assert asked == [text]
