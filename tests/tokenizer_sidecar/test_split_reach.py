"""Places where pieces never go on."""

from __future__ import annotations

import numpy as np
import pytest

from tests.tokenizer_sidecar.splits import pattern
from tokenizer_sidecar.char_sets import Classes
from tokenizer_sidecar.split_reach import reach, singles
from tokenizer_sidecar.split_syntax import parse

classes = Classes()


def joined(source: str, left: str, right: str) -> bool:
    groups = [np.array([ord(c) for c in text]) for text in (left, right)]
    return bool(reach(parse(source, classes)).joined(groups[:1], groups[1:])[0, 0])


@pytest.mark.parametrize(
    ("source", "left", "right", "expected"),
    [
        ("ab|c", "a", "b", True),
        ("ab|c", "b", "a", False),
        ("a+", "a", "a", True),
        ("a?b", "a", "b", True),
        ("ab?c", "a", "c", True),
        ("(?:a|b)c", "b", "c", True),
        ("(?:ab){2}", "b", "a", True),
        ("(?:ab){1}", "b", "a", False),
        (r"[^\W\d]+", "x", " ", False),
        ("a(?!b)", "a", "b", True),
        ("a(?!b)", "a", "c", False),
        (r"\s+(?!\S)|\s+", "\n", "x", True),
        (r"\s*[\r\n]+|\s+(?!\S)|\s+", "\n", "x", False),
        (r"\s*[\r\n]+|\s+(?!\S)|\s+", " ", "x", True),
        (r"\s+(?!\S)|\s*[\r\n]+", "\n", "x", True),
        (r"\s*+[\r\n]+|\s+(?!\S)|\s+", "\n", "x", True),
    ],
)
def test_two_characters_are_joined_where_some_piece_may_depend_on_both(
    source: str, left: str, right: str, expected: bool
) -> None:
    assert joined(source, left, right) is expected


def test_a_word_never_goes_on_with_a_space() -> None:
    letters = np.arange(ord("a"), ord("z") + 1)
    for name in ("gpt2", "llama3", "o200k", "deepseek"):
        found = pattern(name).reach().joined([letters], [np.array([32])])
        assert not found.any(), name


@pytest.mark.parametrize(
    ("source", "empty", "alone"),
    [
        ("a", False, "a"),
        ("a?", True, "a"),
        ("a{2}", False, ""),
        ("ab", False, ""),
        ("a?b", False, "b"),
        ("a?b?", True, "ab"),
        ("(?:a|bc)+", False, "a"),
    ],
)
def test_single_characters_that_match(source: str, empty: bool, alone: str) -> None:
    (alternative,) = parse(source, classes)
    found_empty, found = singles(alternative.body)
    assert found_empty is empty
    assert "".join(map(chr, np.flatnonzero(found))) == alone
