"""Prompts of a body and the form of their ids; how bodies are read is tested with the renderer."""

from __future__ import annotations

import pytest

from tokenizer_sidecar.encode import Side
from tokenizer_sidecar.errors import RenderError
from tokenizer_sidecar.post_processing import pack, unpack
from tokenizer_sidecar.prompts import Form, form_of, packed, prompts_of


class Recording:
    """Says what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[object] = []

    def encode_packed(
        self, text: str, *, add_special_tokens: bool, max_tokens: int | None, cut: Side
    ) -> bytes:
        self.asked = [text, add_special_tokens, max_tokens, cut]
        return b"ids!"


def test_the_form_is_read_from_the_body() -> None:
    body = {"truncate_prompt_tokens": 5, "truncation_side": "right", "add_special_tokens": False}
    assert form_of(body, add_special_tokens=True) == Form(False, 5, "right")
    assert form_of({}, add_special_tokens=True) == Form(True, None, "left")
    assert form_of({"truncate_prompt_tokens": -1}, add_special_tokens=False).max_tokens is None


def test_text_is_encoded_in_that_form() -> None:
    encoder = Recording()
    assert packed("abc", Form(True, 7, "right"), encoder) == b"ids!"
    assert encoder.asked == ["abc", True, 7, "right"]


@pytest.mark.parametrize(
    ("side", "kept"), [("left", [3, 4]), ("right", [1, 2])], ids=["left", "right"]
)
def test_given_ids_are_only_cut(side: Side, kept: list[int]) -> None:
    encoder = Recording()
    assert unpack(packed([1, 2, 3, 4], Form(True, 2, side), encoder)) == kept
    assert packed([1, 2], Form(True, None, side), encoder) == pack([1, 2])
    assert encoder.asked == []


def test_all_shapes_of_prompts_become_one() -> None:
    assert prompts_of({"prompt": "a"}) == ["a"]
    assert prompts_of({"prompt": [1, 2]}) == [[1, 2]]
    assert prompts_of({"prompt": ["a", "b"]}) == ["a", "b"]
    assert prompts_of({"prompt": [[1], [2]]}) == [[1], [2]]
    with pytest.raises(RenderError):
        prompts_of({"prompt": {}})
