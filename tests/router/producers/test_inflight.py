from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from router.producers.facts import Facts, InFlight
from router.producers.inflight import InFlightLoad
from router.scheduling.types import Decision
from tests.support import make


def to(address: str) -> Decision:
    return Decision((make.endpoint(address),), {}, {}, ())


async def test_the_count_is_seen_by_the_next_request_at_once() -> None:
    load, facts = InFlightLoad("load"), Facts()
    lease = load.decided(make.request(), facts, to("a"))
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
    open_ = [(a, load.decided(make.request(), Facts(), to(a))) for a in addresses]
    rng.shuffle(open_)
    while open_:
        left = [address for address, _ in open_]
        assert load.requests == {a: left.count(a) for a in set(left)}
        open_.pop()[1].ended()
    assert load.requests == {}


def test_a_request_that_another_endpoint_serves_counts_there() -> None:
    load = InFlightLoad("load")
    lease = load.decided(make.request(), Facts(), to("a"))
    lease.served_by("b")
    assert load.requests == {"b": 1}
    lease.ended()
    assert load.requests == {}
