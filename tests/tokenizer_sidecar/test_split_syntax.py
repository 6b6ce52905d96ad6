"""Reading patterns, and refusing those two engines could read in two ways."""

from __future__ import annotations

import pytest

from tests.tokenizer_sidecar.splits import PATTERNS
from tokenizer_sidecar.char_sets import Classes
from tokenizer_sidecar.errors import Unproven
from tokenizer_sidecar.split_syntax import Chars, Choice, Repeat, Series, parse

classes = Classes()


@pytest.mark.parametrize("name", PATTERNS)
def test_well_known_patterns_are_read(name: str) -> None:
    for source in PATTERNS[name]:
        assert parse(source, classes)


def test_the_tree_follows_the_pattern() -> None:
    first, second = parse(r"a(?:b|c)+|d{2,3}(?!e)", classes)
    assert isinstance(first.body, Series)
    letter, repeat = first.body.items
    assert isinstance(letter, Chars)
    assert isinstance(repeat, Repeat)
    assert isinstance(repeat.item, Choice)
    assert (repeat.least, repeat.most) == (1, None)
    assert isinstance(second.body, Repeat)
    assert (second.body.least, second.body.most) == (2, 3)
    assert second.look is not None
    assert second.look.negative
    assert second.look.members[ord("e")]


def test_ignoring_case_takes_in_all_cases_of_a_letter() -> None:
    (alternative,) = parse("(?i:s)", classes)
    assert isinstance(alternative.body, Chars)
    assert {chr(c) for c in alternative.body.members.nonzero()[0]} == {"s", "S", "\u017f"}


REFUSED = {
    "an anchor": "a$",
    "a look behind": "(?<=a)b",
    "a look before": "(?!a)b",
    "a look inside": "(?:a(?!b))+",
    "a lazy repeat": "a+?",
    "a lazy count": "a{1,2}?",
    "a possessive count, which one engine takes for a repeat": "a{1,3}+",
    "a reference": r"(a)\1",
    "a capture": "(a)b",
    "a boundary": r"\bword",
    "nested classes": "[a[bc]]",
    "classes in common": r"[\w&&[^b]]",
    "nothing": "a||b",
    "an open group": "(?:a",
    "an open class": "[a",
    "a flag": "(?x:a b)",
    "cases of different length": "(?i:ss)",
    "a class whose cases are unknown": r"(?i:[\p{L}])",
    "cases beyond ASCII": "(?i:ß)",
    "an unknown property": r"\p{Klingon}",
}


@pytest.mark.parametrize("source", REFUSED.values(), ids=REFUSED.keys())
def test_other_patterns_are_refused(source: str) -> None:
    with pytest.raises(Unproven):
        parse(source, classes)
