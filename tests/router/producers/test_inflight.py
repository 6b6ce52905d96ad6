from __future__ import annotations

import random
from collections import Counter
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.producers.facts import Facts, HeldPrefix, InFlight, PrefixMatch, Tokens, Uncached
from router.producers.inflight import InFlightLoad, InFlightLoadParameters, uncached
from router.scheduling.types import Decision
from tests.support import make

AB = [make.endpoint("a"), make.endpoint("b")]
SPLIT = Decision(make.outcome("d"), make.outcome("p"), make.outcome("e"))


def load(**parameters: Any) -> InFlightLoad:
    return InFlightLoad("load", msgspec.convert(parameters, InFlightLoadParameters))


async def known(
    counting: InFlightLoad, tokens: int | None = None, match: PrefixMatch | None = None
) -> Facts:
    """The facts of a prompt of so many tokens."""
    facts = Facts()
    if tokens is not None:
        facts.put(Tokens(bytes(4 * tokens)), "tokens")
    if match is not None:
        facts.put(match, "prefix")
    endpoints = [make.endpoint(a) for a in "abdep"]
    await counting.produce(make.request(), endpoints, facts)
    return facts


async def test_the_count_is_seen_by_the_next_request_at_once() -> None:
    counting, facts = load(), Facts()
    lease = counting.decided(make.request(), facts, make.decision("a"))
    await counting.produce(make.request(), (), facts)
    counted = facts.get(InFlight, "load")
    assert counted is not None
    assert counted.requests == {"a": 1}
    lease.responded(200)
    assert counting.requests == {"a": 1}
    lease.ended()
    assert counting.requests == {}


def test_a_request_that_another_endpoint_serves_counts_there() -> None:
    load = InFlightLoad("load")
    lease = load.decided(make.request(), Facts(), make.decision("a", prefill="p"))
    lease.served_by("b")
    assert load.requests == {"b": 1, "p": 1}
    lease.responded(200)
    assert load.requests == {"b": 1}
    lease.ended()
    assert load.requests == {}


async def test_a_prompt_that_is_computed_elsewhere_counts_there_until_the_answer_starts() -> None:
    counting = load()
    lease = counting.decided(make.request(), Facts(), make.decision("d", prefill="p"))
    assert counting.requests == {"d": 1, "p": 1}
    lease.responded(200)
    assert counting.requests == {"d": 1}
    lease.ended()
    assert counting.requests == {}


async def test_an_exchange_that_ends_early_leaves_nothing_behind() -> None:
    counting = load()
    counting.decided(make.request(), await known(counting, 100), SPLIT).ended()
    assert (counting.requests, counting.tokens) == ({}, {})


@pytest.mark.parametrize(
    ("count", "match", "tokens"),
    [
        # (total - match) * block size + what lies beyond the full blocks.
        pytest.param(100, None, {"a": 100, "b": 100}, id="no-match"),
        pytest.param(100, (6, 16, {"a": 4.0}), {"a": 2 * 16 + 4, "b": 100}, id="part"),
        pytest.param(96, (6, 16, {"a": 6.0}), {"a": 0, "b": 96}, id="all"),
        pytest.param(100, (6, 16, {"a": 4.8}), {"a": 19 + 4, "b": 100}, id="slower-tiers"),
        pytest.param(100, (2, 64, {"a": 1.0}), {"a": 64, "b": 100}, id="last-block-not-full"),
        pytest.param(100, (2, 64, {"a": 0.1}), {"a": 100, "b": 100}, id="no-more-than-all"),
        pytest.param(100, (0, 64, {}), {"a": 100, "b": 100}, id="nothing-looked-at"),
        pytest.param(100, (6, 16, {"x": 4.0}), {"a": 100, "b": 100}, id="somebody-else"),
    ],
)
def test_what_is_not_held_has_to_be_computed(
    count: int, match: tuple[int, int, dict[str, float]] | None, tokens: dict[str, int]
) -> None:
    known_match = None
    if match is not None:
        held = {a: HeldPrefix(0, {}, 0, weighted) for a, weighted in match[2].items()}
        known_match = PrefixMatch(match[0], match[1], held)
    assert uncached(count, known_match, ["a", "b"]) == tokens


async def test_the_named_producer_s_matches_count() -> None:
    counting = load(prefixMatchInfoProducerName="mine")
    facts = Facts()
    facts.put(Tokens(bytes(4 * 100)), "tokens")
    facts.put(PrefixMatch(6, 16, {"a": make.held(6)}), "other")
    facts.put(PrefixMatch(6, 16, {"b": make.held(1)}), "mine")
    await counting.produce(make.request(), AB, facts)
    assert facts.get(Uncached, "load") == Uncached({"a": 100, "b": 84})


async def test_tokens_count_until_the_answer_starts() -> None:
    counting = load()
    match = PrefixMatch(6, 16, {"a": make.held(4)})
    first = counting.decided(make.request(), await known(counting, 100, match), make.decision("a"))
    second = counting.decided(make.request(), await known(counting, 50), make.decision("a"))
    assert counting.tokens == {"a": 36 + 50}
    facts = await known(counting)
    assert facts.get(InFlight, "load") == InFlight({"a": 2}, {"a": 86}, {"a": 150})
    first.responded(200)
    assert (counting.tokens, counting.requests) == ({"a": 50}, {"a": 2})
    first.ended()
    second.ended()
    assert (counting.tokens, counting.requests) == ({}, {})


async def test_tokens_count_where_the_prompt_is_computed() -> None:
    counting = load()
    lease = counting.decided(make.request(), await known(counting, 100), SPLIT)
    assert counting.tokens == {"p": 100}
    assert counting.requests == {"d": 1, "p": 1, "e": 1}
    lease.responded(200)
    assert (counting.tokens, counting.requests) == ({}, {"d": 1})


async def test_whoever_answers_instead_is_charged() -> None:
    counting = load(addEstimatedOutputTokens=True)
    request = make.request(body=b"{}")
    lease = counting.decided(request, await known(counting, 100), make.decision("a"))
    split = counting.decided(request, await known(counting, 100), SPLIT)
    lease.served_by("b")
    assert counting.requests == {"b": 1, "d": 1, "p": 1, "e": 1}
    assert counting.tokens == {"b": 250, "p": 100, "d": 150}
    split.served_by("b")
    assert counting.requests == {"b": 2, "p": 1, "e": 1}
    assert counting.tokens == {"b": 400, "p": 100}
    for held in (lease, split):
        held.responded(200)
        held.ended()
    assert (counting.requests, counting.tokens) == ({}, {})


@pytest.mark.parametrize(
    ("body", "most", "output"),
    [
        pytest.param(b"{}", {}, 150, id="the-prompt-times-the-ratio"),
        pytest.param(b'{"max_tokens": 20}', {}, 20, id="the-client's-limit"),
        pytest.param(b"{}", {"maxEstimatedOutputTokens": 60}, 60, id="the-limit-of-estimates"),
        pytest.param(
            b'{"max_tokens": 500}', {"maxEstimatedOutputTokens": 0}, 0, id="the-lowest-of-all"
        ),
        pytest.param(b"{}", {"outputRatio": 0.25}, 25, id="another-ratio"),
    ],
)
async def test_estimated_output_counts_with_the_prompt_to_the_end(
    body: bytes, most: dict[str, Any], output: int
) -> None:
    counting = load(addEstimatedOutputTokens=True, **most)
    request = make.request(body=body)
    lease = counting.decided(request, await known(counting, 100), make.decision("a"))
    assert counting.tokens == {"a": 100 + output}
    lease.responded(200)
    assert counting.tokens == {"a": 100 + output}
    lease.ended()
    assert counting.tokens == {}


async def test_a_prompt_computed_elsewhere_is_released_while_the_output_still_counts() -> None:
    counting = load(addEstimatedOutputTokens=True)
    lease = counting.decided(make.request(body=b"{}"), await known(counting, 100), SPLIT)
    assert counting.tokens == {"p": 100, "d": 150}
    lease.responded(200)
    assert counting.tokens == {"d": 150}
    lease.ended()
    assert counting.tokens == {}


async def test_without_tokens_only_requests_count() -> None:
    counting = load(addEstimatedOutputTokens=True)
    facts = await known(counting)
    assert facts.get(Uncached) is None
    lease = counting.decided(make.request(body=b"{}"), facts, make.decision("a"))
    assert (counting.tokens, counting.requests) == ({}, {"a": 1})
    lease.ended()


EXCHANGES = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.none() | st.sampled_from("abp"),
        st.none() | st.integers(0, 500),
        st.sampled_from([None, 200, 500]),
    ),
    max_size=25,
)


@given(EXCHANGES, st.booleans(), st.randoms(use_true_random=False))
async def test_counts_are_those_of_open_requests_whatever_happens_and_return_to_nothing(
    exchanges: list[tuple[str, str | None, int | None, int | None]],
    estimate: bool,
    rng: random.Random,
) -> None:
    counting = load(addEstimatedOutputTokens=estimate)
    events = []
    for address, prefill, tokens, status in exchanges:
        facts = await known(counting, tokens)
        decision = make.decision(address, prefill=prefill)
        lease = counting.decided(make.request(body=b"{}"), facts, decision)
        events.append((rng.random(), lease, address, status))
    order = sorted(events, key=lambda event: event[0])
    for _, lease, _, status in order:
        if status is not None:
            lease.responded(status)
        assert all(n > 0 for n in (*counting.requests.values(), *counting.tokens.values()))
    open_ = Counter(address for _, _, address, status in order if status is not None)
    assert all(counting.requests[address] >= n for address, n in open_.items())
    for _, lease, _, _ in order:
        lease.ended()
        assert all(n > 0 for n in (*counting.requests.values(), *counting.tokens.values()))
    assert (counting.requests, counting.tokens) == ({}, {})


async def test_a_prompt_counts_as_held_as_long_as_its_request() -> None:
    counting = load()
    facts = await known(counting, 100, PrefixMatch(6, 16, {"a": HeldPrefix(6, {}, 6, 6.0)}))
    lease = counting.decided(make.request(), facts, make.decision("a"))
    stated = (await known(counting)).get(InFlight, "load")
    assert stated is not None
    assert (stated.tokens, stated.held) == ({"a": 4}, {"a": 100})
    lease.responded(200)
    assert (stated.tokens, stated.held) == ({}, {"a": 100})
    lease.ended()
    assert stated.held == {}


async def test_a_prompt_that_is_computed_elsewhere_is_held_there_until_the_answer_starts() -> None:
    counting = load()
    lease = counting.decided(make.request(), await known(counting, 100), SPLIT)
    stated = (await known(counting)).get(InFlight, "load")
    assert stated is not None
    assert stated.held == {"d": 100, "p": 100}
    lease.responded(200)
    assert stated.held == {"d": 100}
    lease.ended()
    assert stated.held == {}


TENANT = "x-llm-d-inference-fairness-id"


@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.sampled_from("xyz"), st.integers(-1, 1))),
    st.randoms(use_true_random=False),
)
async def test_the_accounts_sum_up_to_all_that_is_in_flight_and_return_to_nothing(
    requests: list[tuple[str, str, int]], rng: random.Random
) -> None:
    counting = load()
    leases = []

    def summed(kind: str) -> Counter[str]:
        total: Counter[str] = Counter()
        for share in counting.shares.values():
            total.update(getattr(share, kind))
        return total

    for address, tenant, priority in requests:
        request = make.request(headers={TENANT: tenant}, priority=priority)
        decision = make.decision(address, prefill=rng.choice([None, "p"]))
        leases.append(counting.decided(request, await known(counting, 7), decision))
    assert {tuple(account) for account in counting.shares} == {r[1:] for r in requests}
    rng.shuffle(leases)
    for lease in leases:
        if rng.random() < 0.5:
            lease.served_by("c")
        if rng.random() < 0.5:
            lease.responded(200)
        assert (summed("requests"), summed("tokens")) == (counting.requests, counting.tokens)
        lease.ended()
        assert (summed("requests"), summed("tokens")) == (counting.requests, counting.tokens)
    assert counting.shares == {}
