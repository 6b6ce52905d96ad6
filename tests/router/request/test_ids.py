from __future__ import annotations

import struct
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.errors import BadRequest
from router.request.ids import (
    MAX_LISTS,
    MAX_TOKEN_ID,
    first_ids,
    how_many,
    is_empty,
    is_flood,
    may_flood,
    packed,
)


@given(st.lists(st.integers(0, MAX_TOKEN_ID)))
def test_ids_are_packed_as_little_endian(ids: list[int]) -> None:
    assert packed(ids) == struct.pack(f"<{len(ids)}I", *ids)


@pytest.mark.parametrize(
    ("prompt", "ids"),
    [
        (None, None),
        ("text", None),
        (["text", "text"], None),
        ([], None),
        ([1, 2], packed([1, 2])),
        ([[1], [2]], packed([1])),
    ],
    ids=str,
)
def test_the_first_prompts_ids_are_taken(prompt: Any, ids: bytes | None) -> None:
    assert first_ids(prompt, "$.x") == ids


@pytest.mark.parametrize(
    "prompt", [[-1], [2**31], [[1], [2**31]], [1, "a"], [[1], "a"], [1, [1]]], ids=str
)
def test_a_refusal_names_the_place(prompt: Any) -> None:
    with pytest.raises(BadRequest, match=r"at `\$\.x`"):
        first_ids(prompt, "$.x")


@pytest.mark.parametrize("prompt", [None, "", [], [""], [[]]], ids=str)
def test_an_empty_prompt_has_nothing_to_match(prompt: Any) -> None:
    assert is_empty(prompt)


@pytest.mark.parametrize(
    ("prompt", "flood"),
    [
        (b"[" + b"[1]," * (MAX_LISTS - 1) + b"[1]]", False),
        (b"[" + b"[1]," * MAX_LISTS + b"[1]]", True),
        (b" [\n[]," + b"[]," * MAX_LISTS + b"[1]]", True),
        (b'"' + b"[[" * MAX_LISTS + b'"', False),
        (b'["' + b"[[" * MAX_LISTS + b'"]', False),
        (b"", False),
    ],
    ids=["just-not", "one-more", "spaced", "text", "texts", "none"],
)
def test_more_lists_than_are_read_are_a_flood(prompt: bytes, flood: bool) -> None:
    assert is_flood(msgspec.Raw(prompt)) is flood
    assert may_flood(prompt) or not flood


@pytest.mark.parametrize(
    ("prompt", "count"),
    [(None, 1), ("text", 1), ([], 1), ([1, 2], 1), ([[1, 2]], 1), (["a"], 1), (["a", "b"], 2),
     ([[1], [2], []], 3)],
    ids=str,
)  # fmt: skip
def test_texts_and_lists_of_ids_are_several_prompts(prompt: Any, count: int) -> None:
    assert how_many(prompt) == count
