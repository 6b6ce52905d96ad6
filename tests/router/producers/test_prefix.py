from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from indexer import snapshot
from indexer.block import Holder, Trust
from indexer.hashing import pack
from router.pool.endpoint import Endpoint, EngineMetrics, KvEvents, ServedModels
from router.pool.pool import Pool
from router.producers.facts import Facts, HeldPrefix, MediaItem, PrefixMatch, Tokens
from router.producers.prefix import PrecisePrefix
from router.producers.prefix_parameters import UNBOUNDED, Bounds, PrecisePrefixParameters
from tests.support import make

A, B = "10.0.0.1:8000", "10.0.0.2:8000"
PROMPT = pack(range(64))


class Fixture:
    """A producer over a pool, engines that announce blocks, and a clock that a test moves."""

    def __init__(self, *endpoints: Endpoint, bounds: Bounds = UNBOUNDED, **parameters: Any) -> None:
        self.pool = Pool(endpoints or (make.endpoint(A), make.endpoint(B)))
        self.now = 100.0
        given = {"speculativeIndexing": True, **parameters}
        self.prefix = PrecisePrefix(
            "prefix",
            msgspec.convert(given, PrecisePrefixParameters),
            resolve=self.pool.resolve_model,
            clock=lambda: self.now,
            notified=True,
            bounds=bounds,
        )
        self.feeds = {
            endpoint.address: self.prefix.index.open(source)
            for endpoint in self.pool.snapshot()
            for source in self.prefix.sources([endpoint])
        }
        for feed in self.feeds.values():
            feed.connected()
        self._seq = dict.fromkeys(self.feeds, -1)

    def announce(self, address: str, *events: Any, topic: bytes = b"kv@x@m") -> None:
        self._seq[address] += 1
        payload = msgspec.msgpack.encode([1.0, events, 0])
        frames = [topic, self._seq[address].to_bytes(8, "big"), payload]
        self.feeds[address].receive(frames, 1.0)

    async def facts(self, **request: Any) -> Facts:
        facts = Facts()
        facts.put(Tokens(PROMPT), "tokens")
        await self.prefix.produce(make.request(**request), self.pool.snapshot(), facts)
        return facts

    async def held(self, **request: Any) -> dict[str, HeldPrefix]:
        match = (await self.facts(**request)).get(PrefixMatch, "prefix")
        assert match is not None
        assert (match.total_blocks, match.block_size) == (4, 16)
        return dict(match.held)

    async def send(self, address: str, prefill: str | None = None) -> Any:
        """Pick an endpoint, and another for the prompt; the lease of that request."""
        decision = make.decision(address, prefill=prefill)
        return self.prefix.decided(make.request(), await self.facts(), decision)

    async def reach(self, address: str) -> int:
        held = (await self.held()).get(address)
        return held.speculative if held else 0


def stored(names: Sequence[int], tokens: Sequence[int], **fields: Any) -> dict[str, Any]:
    return {
        "type": "BlockStored",
        "block_hashes": names,
        "parent_block_hash": None,
        "token_ids": list(tokens),
        "block_size": 16,
        "lora_id": None,
        "medium": "GPU",
        "lora_name": None,
        **fields,
    }


def removed(*names: int, medium: str = "GPU") -> dict[str, Any]:
    return {"type": "BlockRemoved", "block_hashes": names, "medium": medium}


async def test_events_become_a_match_per_endpoint() -> None:
    fixture = Fixture()
    fixture.announce(A, stored([1, 2, 3], range(48)))
    fixture.announce(B, stored([1], range(16)))
    held = await fixture.held()
    assert held[A] == HeldPrefix(3, {"gpu": 3}, 3, 3.0)
    assert held[B] == HeldPrefix(1, {"gpu": 1}, 1, 1.0)


async def test_tiers_weigh_as_configured_and_unknown_ones_like_gpu() -> None:
    weights = [{"name": "gpu", "weight": 1.0}, {"name": "cpu", "weight": 0.5}]
    fixture = Fixture(indexerConfig={"kvCacheBackendConfigs": weights})
    fixture.announce(
        A, stored([1, 2, 3], range(48)), stored([1, 2, 3], range(48), medium="CPU"), removed(3)
    )
    held = (await fixture.held())[A]
    assert (held.blocks, held.tiers, held.weighted) == (3, {"gpu": 2, "cpu": 1}, 2.5)


async def test_without_tokens_nothing_is_stated() -> None:
    facts = Facts()
    await Fixture().prefix.produce(make.request(), (), facts)
    assert facts.get(PrefixMatch) is None


@pytest.mark.parametrize(
    ("request_", "blocks"),
    [
        ({"model": "m"}, 4),
        ({"model": "alias"}, 4),
        ({"model": "other"}, 0),
        ({"model": "sql"}, 0),
        ({"model": "m", "cache_salt": "s"}, 0),
    ],
    ids=str,
)
async def test_only_the_same_identity_matches(request_: dict[str, str], blocks: int) -> None:
    models = ServedModels(names=("alias", "m"), adapters={"sql": "m"})
    fixture = Fixture(make.endpoint(A, models=models))
    fixture.announce(A, stored([1, 2, 3, 4], range(64)))
    held = await fixture.held(**request_)
    assert (held[A].blocks if A in held else 0) == blocks


async def test_an_adapter_matches_its_own_blocks_only() -> None:
    models = ServedModels(names=("m",), adapters={"sql": "m"})
    fixture = Fixture(make.endpoint(A, models=models))
    fixture.announce(
        A, stored([1, 2, 3, 4], range(64), lora_name="sql", lora_id=1, extra_keys=[["sql"]] * 4)
    )
    assert (await fixture.held(model="sql"))[A].blocks == 4
    assert await fixture.held(model="m") == {}


async def test_the_same_adapter_may_have_another_number_elsewhere() -> None:
    models = ServedModels(names=("m",), adapters={"sql": "m"})
    fixture = Fixture(*(make.endpoint(address, models=models) for address in (A, B)))
    for address, number in ((A, 1), (B, 7)):
        keys = [["sql"]] * 2
        event = stored([1, 2], range(32), lora_name="sql", lora_id=number, extra_keys=keys)
        fixture.announce(address, event)
    assert {a: h.blocks for a, h in (await fixture.held(model="sql")).items()} == {A: 2, B: 2}
    assert await fixture.held(model="sql", cache_salt="s") == {}


async def test_a_sleeping_engine_is_credited_nothing() -> None:
    fixture = Fixture()
    fixture.announce(A, stored([1], range(16)))
    fixture.pool.scraped(A, EngineMetrics(asleep=True))
    assert await fixture.held() == {}


async def test_an_event_without_a_model_is_taken_for_the_served_one() -> None:
    fixture = Fixture(make.endpoint(A, models=ServedModels(names=("m",))))
    fixture.announce(A, stored([1], range(16)), topic=b"")
    assert await fixture.held() == {}
    fixture.prefix.tick(fixture.pool.snapshot())
    assert (await fixture.held())[A].blocks == 1


async def test_a_request_sent_is_credited_before_any_event() -> None:
    fixture = Fixture()
    await fixture.send(A)
    held = (await fixture.held())[A]
    assert held == HeldPrefix(0, {}, 4, 4.0)
    assert await fixture.reach(B) == 0


async def test_a_guess_lives_while_the_engine_has_not_answered_and_its_time_beyond() -> None:
    fixture = Fixture()
    lease = await fixture.send(A)
    for _ in range(20):
        fixture.now += 0.5
        fixture.prefix.tick(fixture.pool.snapshot())
    assert await fixture.reach(A) == 4
    lease.responded(200)
    fixture.now += 1.5
    fixture.prefix.tick(fixture.pool.snapshot())
    assert await fixture.reach(A) == 4
    fixture.now += 1.0
    fixture.prefix.tick(fixture.pool.snapshot())
    assert await fixture.reach(A) == 0
    lease.ended()


async def test_a_store_outlives_the_guess() -> None:
    fixture = Fixture()
    lease = await fixture.send(A)
    fixture.announce(A, stored([1, 2, 3, 4], range(64)))
    lease.responded(200)
    lease.ended()
    fixture.now += 10
    assert (await fixture.held())[A] == HeldPrefix(4, {"gpu": 4}, 4, 4.0)


@pytest.mark.parametrize("status", [400, 503])
async def test_a_refused_request_leaves_nothing(status: int) -> None:
    fixture = Fixture()
    lease = await fixture.send(A)
    lease.responded(status)
    lease.ended()
    assert await fixture.reach(A) == 0


async def test_a_request_that_ends_unanswered_leaves_nothing() -> None:
    fixture = Fixture()
    lease = await fixture.send(A)
    lease.ended()
    assert await fixture.reach(A) == 0


@pytest.mark.parametrize("status", [200, 503])
async def test_a_request_that_another_engine_serves_leaves_nothing(status: int) -> None:
    fixture = Fixture()
    first, lease = await fixture.send(A), await fixture.send(A)
    first.ended()
    lease.served_by(B)
    assert await fixture.reach(A) == 0
    lease.responded(status)
    lease.ended()
    assert await fixture.reach(A) == 0
    assert await fixture.reach(B) == 0


async def test_one_failed_request_does_not_take_another_ones_guess() -> None:
    fixture = Fixture()
    first, second = await fixture.send(A), await fixture.send(A)
    first.ended()
    assert await fixture.reach(A) == 4
    second.ended()
    assert await fixture.reach(A) == 0


async def test_an_engines_removal_wins_over_a_guess() -> None:
    fixture = Fixture()
    await fixture.send(A)
    fixture.announce(A, stored([1, 2, 3, 4], range(64)), removed(1))
    assert await fixture.reach(A) == 0


async def test_nothing_is_guessed_unless_configured() -> None:
    fixture = Fixture(speculativeIndexing=False)
    assert await fixture.send(A) is None
    assert await fixture.reach(A) == 0


async def test_a_lost_stream_credits_nothing_until_a_scrape_proves_the_process() -> None:
    fixture = Fixture()
    fixture.announce(A, stored([1], range(16)))
    fixture.pool.scraped(A, EngineMetrics(process_start=5.0, scraped_at=1.0))
    fixture.feeds[A].lost()
    fixture.prefix.tick(fixture.pool.snapshot())
    assert await fixture.reach(A) == 0
    fixture.pool.scraped(A, EngineMetrics(process_start=5.0, scraped_at=2.0))
    fixture.prefix.tick(fixture.pool.snapshot())
    assert await fixture.reach(A) == 1
    assert fixture.feeds[A].trust is Trust.PARTIAL
    fixture.announce(A)
    assert fixture.feeds[A].trust is Trust.EXACT


async def test_a_process_that_was_never_scraped_before_is_not_proven_by_later_scrapes() -> None:
    fixture = Fixture()
    fixture.announce(A, stored([1], range(16)))
    fixture.feeds[A].lost()
    fixture.prefix.tick(fixture.pool.snapshot())
    for scraped_at in (1.0, 2.0, 3.0):  # of whichever process is there now
        fixture.pool.scraped(A, EngineMetrics(process_start=5.0, scraped_at=scraped_at))
        fixture.prefix.tick(fixture.pool.snapshot())
    assert (await fixture.reach(A), fixture.feeds[A].trust) == (0, Trust.STALE)
    fixture.announce(A)
    assert (await fixture.reach(A), fixture.feeds[A].trust) == (1, Trust.EXACT)


def sources_of(endpoint: Endpoint, **kv_events: Any) -> list[tuple[str, str, int]]:
    prefix = Fixture(kvEventsConfig=kv_events).prefix
    return [(s.endpoint, s.topic_filter, s.holder.rank) for s in prefix.sources([endpoint])]


def test_an_endpoint_that_names_its_events_is_followed_there() -> None:
    streams = (KvEvents(endpoint="tcp://h:1"), KvEvents(endpoint="tcp://h:2", rank=1))
    endpoint = make.endpoint(A, kv_events=streams)
    assert sources_of(endpoint) == [("tcp://h:1", "", 0), ("tcp://h:2", "", 1)]
    assert sources_of(endpoint, discoverPods=False) == sources_of(endpoint)


def test_other_endpoints_are_followed_on_the_configured_port_plus_rank() -> None:
    pods = {"podDiscoveryConfig": {"socketPort": 6000}}
    assert sources_of(make.endpoint(A)) == [("tcp://10.0.0.1:5557", "", 0)]
    assert sources_of(make.endpoint(A, rank=2), **pods) == [("tcp://10.0.0.1:6002", "", 2)]
    assert sources_of(make.endpoint("[::1]:8000"), topicFilter="kv@") == [
        ("tcp://[::1]:5557", "kv@", 0)
    ]
    assert sources_of(make.endpoint(A), discoverPods=False) == []


def restored(fixture: Fixture, process_start: float | None) -> None:
    """What a former router knew of A, which holds the first block."""
    other = Fixture()
    other.announce(A, stored([1], range(16)))
    taken = snapshot.take(other.prefix.index, lambda _: process_start)
    kept = snapshot.decode(snapshot.encode(taken, 1.0), 16, 1.0)
    index = fixture.prefix.index
    assert snapshot.restore(index, kept, snapshot.matching(kept, index.feeds())) == 1


@pytest.mark.parametrize(
    ("process_start", "credited", "trust"),
    [(5.0, 1, Trust.PARTIAL), (6.0, 0, Trust.PARTIAL), (None, 0, Trust.STALE)],
    ids=["same process", "another process", "not known"],
)
async def test_what_a_former_router_knew_is_credited_once_a_scrape_shows_the_same_start(
    process_start: float | None, credited: int, trust: Trust
) -> None:
    fixture = Fixture()
    restored(fixture, process_start)
    fixture.prefix.tick(fixture.pool.snapshot())
    assert await fixture.reach(A) == 0
    for scraped_at in (1.0, 2.0):
        fixture.pool.scraped(A, EngineMetrics(process_start=5.0, scraped_at=scraped_at))
        fixture.prefix.tick(fixture.pool.snapshot())
    assert await fixture.reach(A) == credited
    assert fixture.feeds[A].trust is trust


async def test_the_same_text_around_another_image_matches_only_before_it() -> None:
    fixture = Fixture(make.endpoint(A))
    keys = [None, [["image-a", 4]], None, None]
    fixture.announce(A, stored([1, 2, 3, 4], range(64), extra_keys=keys))
    for image, blocks in (("image-a", 4), ("image-b", 1)):
        facts = Facts()
        facts.put(Tokens(PROMPT, (MediaItem(image, 20, 6),)), "tokens")
        await fixture.prefix.produce(make.request(), fixture.pool.snapshot(), facts)
        match = facts.get(PrefixMatch, "prefix")
        assert match is not None
        assert match.held[A].blocks == blocks


async def test_whoever_computes_the_prompt_is_expected_to_hold_it_too() -> None:
    fixture = Fixture(speculativeIndexing=True)
    lease = await fixture.send(A, prefill=B)
    assert [await fixture.reach(address) for address in (A, B)] == [4, 4]
    lease.responded(503)
    assert [await fixture.reach(address) for address in (A, B)] == [0, 0]


async def test_a_prefill_that_failed_takes_only_its_own_guess_back() -> None:
    fixture = Fixture()
    lease = await fixture.send(A, prefill=B)
    assert (await fixture.reach(A), await fixture.reach(B)) == (4, 4)
    lease.prefill_failed()
    lease.responded(200)
    assert (await fixture.reach(A), await fixture.reach(B)) == (4, 0)
    lease.ended()
    alone = await fixture.send(B)
    alone.prefill_failed()
    assert await fixture.reach(B) == 4


async def test_of_ranks_behind_one_port_the_one_that_holds_the_prompt_is_named() -> None:
    streams = tuple(KvEvents(endpoint=f"tcp://h:{rank}", rank=rank) for rank in (0, 1))
    engine = make.endpoint(A, kv_events=streams)
    fixture = Fixture(engine)
    cold = fixture.prefix.amended(make.request(), await fixture.facts(), make.decision(engine))
    assert cold.headers == {}
    fixture.announce(A, stored([1, 2, 3, 4], range(64)))
    facts = await fixture.facts()
    warm = fixture.prefix.amended(make.request(), facts, make.decision(engine))
    assert warm.headers == {"x-data-parallel-rank": "1"}
    guess = fixture.prefix.decided(make.request(), facts, warm)
    assert guess is not None
    assert [ticket.holder for ticket in guess.tickets] == [Holder(A, 1)]


async def test_a_guess_about_an_engine_that_chooses_its_rank_gives_way_to_what_is_known() -> None:
    streams = tuple(KvEvents(endpoint=f"tcp://h:{rank}", rank=rank) for rank in (0, 1))
    engine = make.endpoint(A, kv_events=streams)
    fixture = Fixture(engine)
    decision = make.decision(engine)
    guess = fixture.prefix.decided(make.request(), await fixture.facts(), decision)
    assert guess is not None
    assert await fixture.reach(A) == 4
    assert fixture.prefix.amended(make.request(), await fixture.facts(), decision).headers == {}
    fixture.announce(A, stored([1, 2, 3, 4], range(64)))
    warm = fixture.prefix.amended(make.request(), await fixture.facts(), decision)
    assert warm.headers == {"x-data-parallel-rank": "1"}
