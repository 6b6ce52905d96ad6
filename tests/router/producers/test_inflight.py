from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from router.producers.facts import Facts, InFlight
from router.producers.inflight import InFlightLoad
from tests.support import make


async def test_the_count_is_seen_by_the_next_request_at_once() -> None:
    load, facts = InFlightLoad("load"), Facts()
    lease = load.decided(make.request(), facts, make.decision("a"))
    await load.produce(make.request(), (), facts)
    counted = facts.get(InFlight, "load")
    assert counted is not None
    assert counted.requests == {"a": 1}
    lease.responded(200)
    assert load.requests == {"a": 1}
    lease.ended()
    assert load.requests == {}


@given(st.lists(st.sampled_from("abc"), max_size=40), st.randoms(use_true_random=False))
def test_counts_equal_the_open_requests_and_return_to_nothing(
    addresses: list[str], rng: random.Random
) -> None:
    load = InFlightLoad("load")
    open_ = [(a, load.decided(make.request(), Facts(), make.decision(a))) for a in addresses]
    rng.shuffle(open_)
    while open_:
        left = [address for address, _ in open_]
        assert load.requests == {a: left.count(a) for a in set(left)}
        open_.pop()[1].ended()
    assert load.requests == {}


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
    load = InFlightLoad("load")
    lease = load.decided(make.request(), Facts(), make.decision("d", prefill="p"))
    assert load.requests == {"d": 1, "p": 1}
    lease.responded(200)
    assert load.requests == {"d": 1}
    lease.ended()
    assert load.requests == {}


async def test_an_exchange_that_ends_early_leaves_nothing_behind() -> None:
    load = InFlightLoad("load")
    load.decided(make.request(), Facts(), make.decision("d", prefill="p")).ended()
    assert load.requests == {}
