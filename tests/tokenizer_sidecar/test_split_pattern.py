"""One pattern for a list of splits: it makes the same pieces as the tokenizers library."""

from __future__ import annotations

import re
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenizer_sidecar.splits import PATTERNS, TEXTS, library_pieces, pattern
from tokenizer_sidecar.char_sets import Classes
from tokenizer_sidecar.errors import Unproven
from tokenizer_sidecar.split_pattern import combine
from tokenizer_sidecar.split_syntax import parse


@cache
def python_form(name: str) -> re.Pattern[str]:
    """The pattern in the syntax of an engine that shows its matches, which tiktoken does not."""
    source = re.sub(
        r"\\x\{([0-9a-f]+)\}", lambda m: rf"\U{int(m[1], 16):08x}", pattern(name).source()
    )
    return re.compile(source)


@pytest.mark.parametrize("name", PATTERNS)
@settings(deadline=None, max_examples=300)
@given(st.data())
def test_the_pieces_are_those_of_the_library(name: str, data: st.DataObject) -> None:
    text = data.draw(TEXTS)
    pieces = [match.group() for match in python_form(name).finditer(text)]
    assert pieces == library_pieces(name, text)


def test_neighbours_that_do_not_look_ahead_are_grouped() -> None:
    source = combine([parse(r"a|b|c(?!d)|e", Classes())]).source()
    a, b, c, d, e = (f"[\\x{{{ord(x):x}}}-\\x{{{ord(x):x}}}]" for x in "abcde")
    assert source.startswith(f"(?:{a}|{b})|(?:{c}(?!{d}))|(?:{e})|")


BAD = {
    "an empty match": [r"a*"],
    "runs of the same": [r"\d+", r"[1-5]+", "a"],
    "a first split of another kind": ["ab", r"\s+"],
    "short runs divided later": [r"\d{1,3}", "1|a"],
}


@pytest.mark.parametrize("sources", BAD.values(), ids=BAD.keys())
def test_what_one_pattern_cannot_do_is_not_taken(sources: list[str]) -> None:
    classes = Classes()
    with pytest.raises(Unproven):
        combine([parse(source, classes) for source in sources])
