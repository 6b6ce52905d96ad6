from __future__ import annotations

import pytest

from router.producers.facts import Facts, HeldPrefix, PrefixMatch, Tokens
from router.scheduling.filters.load_gate import LoadGateFilter
from tests.support import make


def kept(top_n: int, facts: Facts, names: str = "abcd") -> str:
    endpoints = [make.endpoint(name) for name in names]
    gate = LoadGateFilter(top_n=top_n)
    return "".join(e.address for e in gate.filter(make.request(), endpoints, facts))


def loaded(held: dict[str, HeldPrefix] | None = None, **tokens: int) -> Facts:
    facts = make.facts(in_flight_tokens=tokens)
    facts.put(PrefixMatch(8, 16, held or {}))
    facts.put(Tokens(bytes(4)))
    return facts


@pytest.mark.parametrize(
    ("top_n", "names"),
    [(0, "bd"), (1, "d"), (2, "bd"), (3, "abd"), (4, "abcd"), (99, "abcd")],
    ids=str,
)
def test_the_least_loaded_stay_in_their_order(top_n: int, names: str) -> None:
    assert kept(top_n, loaded(a=30, b=20, c=40, d=10)) == names


def test_of_equally_loaded_ones_those_with_more_of_the_prompt_stay() -> None:
    held = {"c": make.held(3), "d": make.held(1)}
    assert kept(2, loaded(held)) == "cd"
    assert kept(2, loaded(held, a=1, c=1)) == "bd"


def test_of_ones_that_are_equal_in_all_each_request_draws_its_own() -> None:
    endpoints, gate = [make.endpoint(name) for name in "abcd"], LoadGateFilter()
    requests = [make.request(id=str(number)) for number in range(100)]
    drawn = [
        "".join(e.address for e in gate.filter(request, endpoints, make.facts()))
        for request in (*requests, *requests)
    ]
    assert set(drawn) == {"ab", "ac", "ad", "bc", "bd", "cd"}
    assert drawn[:100] == drawn[100:]


def test_it_drops_for_load() -> None:
    assert LoadGateFilter.by_load
