"""Character classes as sets."""

from __future__ import annotations

import re
import unicodedata

import numpy as np
import pytest

from tokenizer_sidecar.char_sets import Classes, everything, none, rust_class
from tokenizer_sidecar.errors import Unproven

classes = Classes()


def test_a_class_has_the_characters_unicode_says() -> None:
    letters = classes.of(r"\p{L}")
    for code in range(0x500):  # where no version of Unicode adds any
        assert letters[code] == unicodedata.category(chr(code)).startswith("L"), hex(code)


def test_a_negated_class_has_all_others_but_surrogates() -> None:
    space, other = classes.of(r"\s"), classes.of(r"\S")
    assert np.array_equal(space | other, everything())
    assert not (space & other).any()
    assert not everything()[0xD800:0xE000].any()


def test_ranges_say_exactly_what_is_in_the_set() -> None:
    members = none()
    members[[ord("a"), ord("b"), ord("c"), ord("x"), 0x10FFFF]] = True
    assert rust_class(members) == r"[\x{61}-\x{63}\x{78}-\x{78}\x{10ffff}-\x{10ffff}]"


@pytest.mark.parametrize("source", [r"\s", r"[^\r\n\p{L}\p{N}]", r"\p{Lu}"])
def test_ranges_and_set_agree_everywhere(source: str) -> None:
    members = classes.of(source)
    form = re.sub(r"\\x\{([0-9a-f]+)\}", lambda m: rf"\U{int(m[1], 16):08x}", rust_class(members))
    compiled = re.compile(form)
    codes = [*range(0, 0x110000, 37), *range(0x3000)]
    assert [bool(compiled.match(chr(c))) for c in codes] == [bool(members[c]) for c in codes]


@pytest.mark.parametrize("source", ["[", r"\p{Nothing}", r"[^\s\S]"])
def test_a_class_that_cannot_be_read_or_is_empty_is_refused(source: str) -> None:
    with pytest.raises(Unproven):
        classes.of(source)
