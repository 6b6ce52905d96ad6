from __future__ import annotations

import pytest

from router.errors import NotCached
from router.producers.facts import Facts, PrefixMatch
from router.scheduling.conditional import refuse_uncached, wants_cached
from tests.support import make


@pytest.mark.parametrize(
    ("header", "wanted"),
    [
        (None, False),
        ("", False),
        ("if-available", True),
        ("IF-Available; wait=3", True),
        ("respond-async, if-available", True),
        ("respond-async; x=if-available", False),
        ("if-available-soon", False),
    ],
)
def test_the_preference_is_read_as_the_standard_has_it(header: str | None, wanted: bool) -> None:
    headers = {} if header is None else {"prefer": header}
    assert wants_cached(make.request(headers=headers)) is wanted


def test_a_confirmed_block_of_the_named_producer_is_enough() -> None:
    facts = Facts()
    facts.put(PrefixMatch(4, 16, {}), "approx")
    facts.put(PrefixMatch(4, 16, {"a:1": make.held(1)}), "precise")
    refuse_uncached(make.decision("a:1"), facts, "precise")
    with pytest.raises(NotCached):
        refuse_uncached(make.decision("a:1"), facts, "approx")
    with pytest.raises(NotCached):
        refuse_uncached(make.decision("b:1"), facts, "precise")


def test_a_guess_or_no_knowledge_at_all_is_not() -> None:
    guess = make.facts(4, a=make.held(0, speculative=4))
    with pytest.raises(NotCached):
        refuse_uncached(make.decision("a"), guess, "")
    with pytest.raises(NotCached):
        refuse_uncached(make.decision("a"), Facts(), "")
