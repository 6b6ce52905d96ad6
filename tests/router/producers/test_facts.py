from __future__ import annotations

from router.producers.facts import Facts, InFlight, PrefixMatch, Tokens


def test_facts_are_found_by_type_and_producer() -> None:
    facts = Facts()
    first, second = PrefixMatch(1, 16, {}), PrefixMatch(2, 16, {})
    facts.put(first, "one")
    facts.put(second, "two")
    assert facts.get(PrefixMatch, "one") is first
    assert facts.get(PrefixMatch, "two") is second
    assert facts.get(PrefixMatch) is first
    assert facts.get(PrefixMatch, "three") is None
    assert facts.get(InFlight) is None


def test_tokens_are_counted() -> None:
    assert Tokens(b"\0" * 12).count == 3
