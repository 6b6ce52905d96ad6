from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.pool.pool import Pool
from router.producers import encoder_cache
from router.producers.encoder_cache import RATIOS, EncoderCache, EncoderCacheParameters
from router.producers.facts import EncoderCacheMatch, Facts, MediaItem, Tokens
from router.request.types import Kind
from router.scheduling.types import Decision
from tests.support import make

CHAT = (
    b'{"messages": [{"role": "user", "content": [{"type": "text", "text": "?"},'
    b' {"type": "image_url", "image_url": {"url": "http://x/1.png"}}]}]}'
)


def cache(**parameters: Any) -> EncoderCache:
    return EncoderCache("mm", msgspec.convert(parameters, EncoderCacheParameters))


async def told(producer: EncoderCache, *items: MediaItem, **request: Any) -> Facts:
    facts = Facts()
    facts.put(Tokens(bytes(400), items), "tokens")
    await producer.produce(make.request(**request), (), facts)
    return facts


async def match(producer: EncoderCache, *items: MediaItem, **request: Any) -> EncoderCacheMatch:
    found = (await told(producer, *items, **request)).get(EncoderCacheMatch, "mm")
    assert found is not None
    return found


async def send(
    producer: EncoderCache, decision: Decision, *items: MediaItem, **request: Any
) -> Any:
    facts = await told(producer, *items, **request)
    return producer.decided(make.request(**request), facts, decision)


CAT, DOG = MediaItem("cat", 3, 30), MediaItem("dog", 50, 10)


async def test_items_weigh_their_tokens_and_count_once() -> None:
    producer = cache()
    assert await match(producer, CAT, DOG) == EncoderCacheMatch({}, 40.0)
    await send(producer, make.decision("a"), CAT)
    await send(producer, make.decision("b"), CAT, DOG)
    assert await match(producer, CAT, DOG) == EncoderCacheMatch({"a": 30.0, "b": 40.0}, 40.0)
    again = MediaItem("cat", 60, 30)
    assert await match(producer, CAT, again) == EncoderCacheMatch({"a": 30.0, "b": 30.0}, 30.0)
    assert await match(producer, MediaItem("new", 1, 0)) == EncoderCacheMatch({}, 1.0)


async def test_media_whose_tokens_are_not_known_weigh_one_each() -> None:
    producer = cache()
    chat = {"kind": Kind.CHAT, "body": CHAT}
    assert await match(producer, **chat) == EncoderCacheMatch({}, 1.0)
    await send(producer, make.decision("a"), **chat)
    assert await match(producer, **chat) == EncoderCacheMatch({"a": 1.0}, 1.0)


async def test_a_request_without_media_states_and_leaves_nothing() -> None:
    producer = cache()
    facts = await told(producer)
    assert facts.get(EncoderCacheMatch) is None
    assert producer.decided(make.request(), facts, make.decision("a")) is None


@pytest.mark.parametrize(
    ("decision", "encoders"),
    [
        pytest.param(make.decision("d"), {"d"}, id="one-stage"),
        pytest.param(make.decision("d", prefill="p"), {"p"}, id="where-the-prompt-is-computed"),
        pytest.param(
            Decision(make.outcome("d"), make.outcome("p"), make.outcome("e1", "e2")),
            {"e1", "e2"},
            id="a-stage-of-its-own",
        ),
    ],
)
async def test_who_encodes_has_the_items(decision: Decision, encoders: set[str]) -> None:
    producer = cache()
    await send(producer, decision, CAT)
    assert set((await match(producer, CAT)).matched) == encoders


async def test_what_failed_restarted_or_went_has_nothing() -> None:
    producer = cache()
    pool = Pool([make.endpoint("a"), make.endpoint("b")])
    pool.listen(producer.index)
    await send(producer, make.decision("a"), CAT)
    (await send(producer, make.decision("b"), CAT)).ended()
    assert set((await match(producer, CAT)).matched) == {"a"}
    pool.replace([])
    assert (await match(producer, CAT)).matched == {}


@given(st.lists(st.integers(0, 9), max_size=40))
async def test_an_endpoint_keeps_one_item_for_each_two_megabytes(items: list[int]) -> None:
    producer = cache(cacheSizeInMBPerServer=7)
    for item in items:
        await send(producer, make.decision("a"), MediaItem(str(item), 0, 1))
    last = list(dict.fromkeys(reversed(items)))[:3]
    for item in range(10):
        found = await match(producer, MediaItem(str(item), 0, 1))
        assert ("a" in found.matched) == (item in last)


def test_a_cache_without_room_is_refused_and_its_name_is_llm_d_s() -> None:
    with pytest.raises(msgspec.ValidationError, match="cacheSizeInMBPerServer"):
        cache(cacheSizeInMBPerServer=1)
    with pytest.raises(msgspec.ValidationError, match="cacheSizeInMB"):
        cache(cacheSizeInMB=2048)


async def test_lookups_are_counted_by_modality_and_hits_by_endpoint() -> None:
    producer = cache()
    cat, dog = MediaItem("cat", 3, 30, "image"), MediaItem("dog", 50, 10, "video")
    await send(producer, make.decision("a"), cat)
    await send(producer, make.decision("b"), cat, dog)
    endpoints = [make.endpoint(address) for address in "abc"]
    facts = Facts()
    facts.put(Tokens(bytes(400), (cat, dog, MediaItem("new", 80, 1, "smell"))), "tokens")
    await producer.produce(make.request(), endpoints, facts)
    stats = producer.stats
    assert stats.queries == {"image": 3, "video": 2, "other": 1}
    assert stats.hits == {("a", "image"): 2, ("b", "image"): 1, ("b", "video"): 1}
    # Of the last three: c has none, a one, b two; a had one of two before that.
    assert stats.ratio_sum == pytest.approx(1 / 2 + 1 / 3 + 2 / 3)
    assert [RATIOS[n] for n, count in enumerate(stats.ratio_buckets) if count] == [
        0.0,
        0.4,
        0.5,
        0.7,
    ]


async def test_endpoints_that_come_and_go_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encoder_cache, "MAX_HITS", 2)
    producer = cache()
    for address in "abc":
        await send(producer, make.decision(address), CAT)
    await match(producer, CAT)
    assert producer.stats.hits == {("a", "other"): 3, ("b", "other"): 2, ("other", "other"): 1}
