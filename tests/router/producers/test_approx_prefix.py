from __future__ import annotations

from typing import Any

import msgspec

from indexer.hashing import pack
from router.pool.endpoint import Endpoint, EngineMetrics
from router.pool.pool import Pool
from router.producers.approx_parameters import ApproxPrefixParameters
from router.producers.approx_prefix import ApproxPrefix
from router.producers.facts import Facts, HeldPrefix, PrefixMatch, Tokens
from router.producers.types import Lease
from tests.support import make

A, B = "10.0.0.1:8000", "10.0.0.2:8000"


def cache(address: str, **metrics: Any) -> Endpoint:
    return make.endpoint(address, metrics=EngineMetrics(**metrics))


class Fixture:
    """The producer over a pool."""

    def __init__(self, *endpoints: Endpoint, **parameters: Any) -> None:
        self.pool = Pool(endpoints or (make.endpoint(A), make.endpoint(B)))
        given = msgspec.convert(parameters, ApproxPrefixParameters)
        self.producer = ApproxPrefix("approx", given)
        self.pool.listen(self.producer.index)

    async def facts(self, count: int = 128, **request: Any) -> Facts:
        facts = Facts()
        facts.put(Tokens(pack(range(count))), "tokens")
        await self.producer.produce(make.request(**request), self.pool.snapshot(), facts)
        return facts

    async def match(self, count: int = 128, **request: Any) -> PrefixMatch:
        match = (await self.facts(count, **request)).get(PrefixMatch, "approx")
        assert match is not None
        return match

    async def blocks(self, count: int = 128, **request: Any) -> dict[str, int]:
        held = (await self.match(count, **request)).held
        return {address: prefix.blocks for address, prefix in held.items()}

    async def send(self, address: str, count: int = 128, prefill: str | None = None) -> Lease:
        endpoint = self.pool.get(address) or address
        decision = make.decision(endpoint, prefill=prefill)
        lease = self.producer.decided(make.request(), await self.facts(count), decision)
        assert lease is not None
        return lease


async def test_what_was_sent_is_held_and_says_that_it_is_an_estimate() -> None:
    fixture = Fixture()
    assert await fixture.match() == PrefixMatch(2, 64, {})
    await fixture.send(A)
    held = HeldPrefix(blocks=2, tiers={"estimated": 2}, speculative=2, weighted=2.0)
    assert await fixture.match() == PrefixMatch(2, 64, {A: held})


async def test_longer_prompts_match_as_far_as_full_blocks_are_equal() -> None:
    fixture = Fixture()
    await fixture.send(A, 150)
    assert (await fixture.match(200)).total_blocks == 4
    assert await fixture.blocks(200) == {A: 2}
    assert await fixture.blocks(150) == {A: 3}
    assert await fixture.blocks(100) == {A: 1}


async def test_another_model_or_salt_matches_nothing() -> None:
    fixture = Fixture()
    await fixture.send(A)
    assert await fixture.blocks(model="other") == {}
    assert await fixture.blocks(cache_salt="s") == {}


async def test_a_prompt_computed_elsewhere_is_held_at_both() -> None:
    fixture = Fixture()
    await fixture.send(A, prefill=B)
    assert await fixture.blocks() == {A: 2, B: 2}


async def test_a_request_that_failed_is_taken_back() -> None:
    fixture = Fixture()
    lease = await fixture.send(A)
    lease.responded(500)
    lease.ended()
    assert await fixture.blocks() == {}


async def test_engines_that_restart_or_go_hold_nothing() -> None:
    fixture = Fixture()
    await fixture.send(A)
    await fixture.send(B)
    fixture.pool.scraped(A, EngineMetrics(process_start=1.0))
    assert await fixture.blocks() == {A: 2, B: 2}
    fixture.pool.scraped(A, EngineMetrics(process_start=2.0))
    assert await fixture.blocks() == {B: 2}
    fixture.pool.replace([make.endpoint(A)])
    assert await fixture.blocks() == {}


async def test_a_sleeping_engine_is_credited_nothing() -> None:
    fixture = Fixture()
    await fixture.send(A)
    fixture.pool.scraped(A, EngineMetrics(asleep=True))
    assert await fixture.blocks() == {}


async def test_block_size_and_capacity_follow_what_engines_publish() -> None:
    # 16 blocks of 16 tokens are 2 of 128.
    fixture = Fixture(make.endpoint(A), cache(B, block_size=128, gpu_blocks=2))
    assert (await fixture.match(512)).block_size == 128
    await fixture.send(B, 512)
    assert await fixture.blocks(512) == {B: 2}
    fixture.pool.scraped(A, EngineMetrics(block_size=16, gpu_blocks=12))
    assert (await fixture.match(512)).block_size == 64
    await fixture.send(A, 512)
    assert await fixture.blocks(512) == {A: 3}


async def test_nothing_is_tuned_where_that_is_not_wanted() -> None:
    fixture = Fixture(
        cache(A, block_size=128, gpu_blocks=2), autoTune=False, lruCapacityPerServer=3
    )
    await fixture.send(A, 512)
    assert (await fixture.match(512)).block_size == 64
    assert await fixture.blocks(512) == {A: 3}


async def test_only_so_much_of_a_prompt_is_looked_at() -> None:
    fixture = Fixture(maxPrefixTokensToMatch=256)
    assert (await fixture.match(1000)).total_blocks == 4


async def test_without_tokens_nothing_is_stated_and_nothing_remembered() -> None:
    fixture, facts = Fixture(), Facts()
    await fixture.producer.produce(make.request(), fixture.pool.snapshot(), facts)
    assert facts.get(PrefixMatch) is None
    assert fixture.producer.decided(make.request(), facts, make.decision(A)) is None
