from __future__ import annotations

from router.producers.facts import Facts, InFlight, Peer, PrefixMatch, Tokens
from tests.support import make


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
    assert (facts.producer_of(PrefixMatch), facts.producer_of(InFlight)) == ("one", "")


def test_tokens_are_counted() -> None:
    assert Tokens(b"\0" * 12).count == 3


def test_a_fact_can_be_added_for_some_readers_only() -> None:
    facts = Facts()
    tokens = Tokens(b"")
    facts.put(tokens, "token-producer")
    near, far = (facts.also(Peer(make.endpoint(a))) for a in ("a:1", "b:1"))
    assert near.get(Peer) == Peer(make.endpoint("a:1"))
    assert near.also(Peer(make.endpoint("b:1"))).get(Peer) == far.get(Peer)
    assert near.get(Tokens, "token-producer") is tokens
    assert near.rng is facts.rng
    assert facts.get(Peer) is None
