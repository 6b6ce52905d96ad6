from __future__ import annotations

from router.producers.encoder_cache import EncoderCache, EncoderCacheParameters
from router.producers.facts import Facts, MediaItem, Tokens
from router.telemetry.encoder_samples import TYPE, samples
from router.telemetry.metrics import Metrics
from tests.support import make


def named(address: str) -> tuple[str, str]:
    return {"a": ("pod-a", "ns")}.get(address, (address, ""))


async def test_lookups_hits_and_shares_are_published() -> None:
    cache = EncoderCache("mm", EncoderCacheParameters())
    endpoints = [make.endpoint(address) for address in "ab"]
    cat, dog = MediaItem("cat", 3, 30, "image"), MediaItem("dog", 50, 10, "image")
    for address, media in (("a", (cat,)), ("b", (dog,)), ("b", (cat, dog))):
        facts = Facts()
        facts.put(Tokens(bytes(400), media), "tokens")
        await cache.produce(make.request(), endpoints, facts)
        cache.decided(make.request(), facts, make.decision(address))
    metrics = Metrics(lambda _: True)
    metrics.watch(lambda: samples([cache], named))

    def value(name: str, **labels: str) -> float | None:
        told = {"plugin_type": TYPE, "plugin_name": "mm", **labels}
        return metrics.registry.get_sample_value(f"llm_d_epp_encoder_cache_{name}", told)

    assert value("queries_total", modality="image") == 4
    assert value("hits_total", pod="ns/pod-a", modality="image") == 1
    assert value("hits_total", pod="b", modality="image") == 1
    assert (value("hit_ratio_count"), value("hit_ratio_sum")) == (6, 1.0)
    assert (value("hit_ratio_bucket", le="0.0"), value("hit_ratio_bucket", le="0.5")) == (4, 6)


def test_without_such_a_producer_there_is_nothing_to_say() -> None:
    assert list(samples([], named)) == []
