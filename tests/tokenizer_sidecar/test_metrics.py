"""The exposition, read back by Prometheus' own parser."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families

from tokenizer_sidecar.cache import CacheStats
from tokenizer_sidecar.metrics import Sources, exposition, registry
from tokenizer_sidecar.stats import Stats


def samples(sources: Sources) -> dict[tuple[str, ...], float]:
    text = exposition(registry(sources)).decode()
    return {
        (sample.name.removeprefix("warmroute_tokenizer_"), *sample.labels.values()): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_every_counter_is_exposed() -> None:
    stats = Stats(tokens=7, in_flight=2, encode_s=1.5)
    stats.requests.update({"OK": 3, "REFUSED": 1})
    stats.load_failures["tiny"] = 4
    stats.encode_buckets[0] = 1
    stats.encode_buckets[-1] = 2
    found = samples(Sources(stats))
    assert found["requests_total", "ok"] == 3
    assert found["requests_total", "refused"] == 1
    assert found["load_failures_total", "tiny"] == 4
    assert found["tokens_total",] == 7
    assert found["in_flight",] == 2
    assert found["encode_seconds_bucket", "0.0005"] == 1
    assert found["encode_seconds_bucket", "2.5"] == 1
    assert found["encode_seconds_bucket", "+Inf"] == found["encode_seconds_count",] == 3
    assert found["encode_seconds_sum",] == 1.5


def test_the_queue_and_every_model_s_cache_are_exposed() -> None:
    cache = CacheStats(hit_tokens=5, new_tokens=2, bytes=700, entries=1, evicted=3)
    missing = {"tiny": "", "late": "still loading"}
    sources = Sources(Stats(work_s=0.5), lambda: 4, lambda: {"tiny": cache}, lambda: missing)
    found = samples(sources)
    assert found["queued",] == 4
    assert (found["model_ready", "tiny"], found["model_ready", "late"]) == (1, 0)
    assert found["work_seconds_total",] == 0.5
    assert found["cache_tokens_total", "tiny", "hit"] == 5
    assert found["cache_tokens_total", "tiny", "new"] == 2
    assert found["cache_bytes", "tiny"] == 700
    assert found["cache_evictions_total", "tiny"] == 3


def test_a_registry_follows_its_stats() -> None:
    stats = Stats()
    own = registry(Sources(stats))
    before = exposition(own)
    stats.tokens += 1
    assert exposition(own) != before


def test_nothing_but_the_sidecar_s_metrics_is_exposed() -> None:
    families = text_string_to_metric_families(exposition(registry(Sources(Stats()))).decode())
    assert all(family.name.startswith("warmroute_tokenizer_") for family in families)
