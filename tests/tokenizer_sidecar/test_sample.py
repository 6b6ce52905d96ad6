"""The sample two encoders must agree on."""

from __future__ import annotations

import unicodedata

from tokenizer_sidecar.sample import texts


def test_the_sample_has_characters_of_every_kind() -> None:
    text = "".join(texts([]))
    kinds = {unicodedata.category(character) for character in text}
    assert {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Nd", "Nl", "No"} <= kinds
    assert {"Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc", "Sk", "So"} <= kinds
    assert {"Zs", "Zl", "Zp", "Cc", "Cf", "Co", "Cn"} <= kinds


def test_the_sample_can_be_encoded() -> None:
    for text in texts(["<s>"]):
        text.encode()


def test_added_tokens_stand_in_it_whole_and_broken() -> None:
    text = "".join(texts(["<|begin|>"]))
    assert "a<|begin|>b" in text
    assert "|begin|><|begin|" in text
