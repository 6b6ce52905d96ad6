"""The encoder by tiktoken: special tokens, what it cannot do."""

from __future__ import annotations

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


def encoder(pattern: str) -> FastEncoder:
    end = AddedToken(content="<end>", normalized=False)
    return FastEncoder(pattern, ranks(MODEL), AddedTokens([end], {"<end>": 70_000}, str), slow)


def test_special_tokens_stand_between_ordinary_text() -> None:
    found = encoder(r"[^ ]+| ").encode("a<end><end>b c")
    a, b, space, c = (MODEL.vocab[entry] for entry in ("a", "b", "Ġ", "c"))
    assert found == pack([a, 70_000, 70_000, b, space, c])


def test_empty_text_has_no_ids() -> None:
    assert encoder("a").encode("") == b""


@pytest.mark.parametrize("text", [" " * 3_000_000 + "a"], ids=["space"])
def test_what_tiktoken_gives_up_on_is_encoded_the_slow_way(text: str) -> None:
    asked.clear()
    assert encoder(r"\s+(?!\S)|\s+|\S+").encode(text) == b"slow"
    assert asked == [text]
