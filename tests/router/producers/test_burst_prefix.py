from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from indexer.hashing import pack
from router.pool.endpoint import Endpoint
from router.producers.burst_parameters import BurstPrefixParameters
from router.producers.burst_prefix import BurstPrefix
from router.producers.facts import Facts, HeldPrefix, PrefixMatch, Tokens
from tests.support import make

ENDPOINTS = [make.endpoint("x"), make.endpoint("y")]


def producer(**parameters: Any) -> BurstPrefix:
    # A window that no test waits for: a full batch closes it.
    given = {"windowDurationMs": 10_000, **parameters}
    return BurstPrefix("burst", msgspec.convert(given, BurstPrefixParameters))


async def place(
    burst: BurstPrefix, first: int, count: int = 128, endpoints: list[Endpoint] = ENDPOINTS
) -> PrefixMatch | None:
    facts = Facts()
    facts.put(Tokens(pack(range(first, first + count))), "tokens")
    await burst.produce(make.request(), endpoints, facts)
    return facts.get(PrefixMatch, "burst")


def full(address: str, blocks: int = 2) -> PrefixMatch:
    return PrefixMatch(blocks, 64, {address: HeldPrefix(0, {}, 0, float(blocks))})


async def test_requests_with_one_prompt_match_in_full_at_one_endpoint_and_hold_nothing() -> None:
    burst = producer(maxBatchSize=5)
    placed = await asyncio.gather(*(place(burst, first) for first in (0, 500, 0, 500, 900)))
    assert placed == [full("x"), full("y"), full("x"), full("y"), PrefixMatch(2, 64, {})]


async def test_a_window_closes_by_itself_and_the_next_one_knows_nothing_of_it() -> None:
    burst = producer(windowDurationMs=20)
    first = [*await asyncio.gather(place(burst, 0), place(burst, 0))]
    assert first == [full("x"), full("x")]
    assert await place(burst, 0) == PrefixMatch(2, 64, {})


async def test_a_full_batch_does_not_wait_and_nobody_is_refused() -> None:
    burst = producer(maxBatchSize=2)
    async with asyncio.timeout(5):
        placed = await asyncio.gather(*(place(burst, 0) for _ in range(4)))
    assert placed == [full("x")] * 4


async def test_who_leaves_while_waiting_takes_nobody_along() -> None:
    burst = producer(maxBatchSize=3)
    async with asyncio.TaskGroup() as group:
        leaver = group.create_task(place(burst, 0))
        stayer = group.create_task(place(burst, 0))
        await asyncio.sleep(0)
        leaver.cancel()
        await asyncio.sleep(0)
        last = group.create_task(place(burst, 0))
    assert leaver.cancelled()
    assert stayer.result() == last.result() == full("x")


async def test_an_endpoint_never_scraped_is_not_taken_for_idle() -> None:
    burst = producer(maxBatchSize=2)
    endpoints = [make.endpoint("a"), make.endpoint("b", running=1), make.endpoint("c", running=9)]
    placed = await asyncio.gather(*(place(burst, 0, endpoints=endpoints) for _ in range(2)))
    assert placed == [full("b")] * 2


async def test_what_was_just_sent_counts_before_any_scrape_says_so() -> None:
    burst = producer(maxBatchSize=2)
    endpoints = [make.endpoint("a", running=0), make.endpoint("b", running=1)]
    leases, places = [], []
    for window in range(3):
        first, second = await asyncio.gather(
            *(place(burst, 500 * window, endpoints=endpoints) for _ in range(2))
        )
        assert first == second
        assert first is not None
        (address,) = first.held
        places.append(address)
        leases += [burst.decided(make.request(), Facts(), make.decision(address)) for _ in range(2)]
    assert places == ["a", "b", "a"]
    for lease in leases:
        lease.ended()
    assert await asyncio.gather(*(place(burst, 0, endpoints=endpoints) for _ in range(2))) == [
        full("a"),
        full("a"),
    ]


async def test_what_has_no_tokens_does_not_wait() -> None:
    burst, facts = producer(), Facts()
    async with asyncio.timeout(5):
        await burst.produce(make.request(), ENDPOINTS, facts)
        assert facts.get(PrefixMatch) is None
        assert await place(burst, 0, 0) == PrefixMatch(0, 64, {})
