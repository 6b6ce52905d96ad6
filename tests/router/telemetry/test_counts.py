from __future__ import annotations

from typing import Any

from router.producers.facts import HeldPrefix
from router.telemetry.counts import MAX_ATTEMPTS, MAX_TIERS, Counts, Names
from router.telemetry.decisions import Record, StageRecord
from router.telemetry.samples import Buckets, Histogram, Sample

A, B = "10.0.0.1:8000", "10.0.0.2:8000"

NAMES = Names(
    model=lambda name: name if name == "m" else "other",
    endpoint=lambda address: ({A: "pod-a", B: "pod-b"}[address], "ns"),
    plugin=lambda name: f"{name}-type",
)


def record(**fields: Any) -> Record:
    told = {
        "target_model": "m",
        "endpoint": A,
        "block_size": 16,
        "total_blocks": 4,
        "prefix_producer": "precise",
        **fields,
    }
    return Record(request_id="r", at=1.0, kind="chat", model="m", **told)


def told(counts: Counts) -> dict[str, Sample | Histogram]:
    return {sample.name: sample for sample in counts.samples()}


def histogram(counts: Counts, name: str, *labels: str) -> Buckets:
    found = told(counts)[name]
    assert isinstance(found, Histogram)
    return found.values[labels]


def count(counts: Counts, name: str, *labels: str) -> float:
    found = told(counts)[name]
    assert isinstance(found, Sample)
    return found.values[labels]


def test_picks_are_counted_by_endpoint_and_refusals_without_one() -> None:
    counts = Counts(NAMES)
    counts.routed(record())
    counts.routed(record(target_model="invented"))
    counts.refused(record(endpoint=None))
    name = "llm_d_epp_scheduler_attempts"
    assert count(counts, name, "success", "m", "pod-a", "ns", "8000") == 1
    assert count(counts, name, "success", "other", "pod-a", "ns", "8000") == 1
    assert count(counts, name, "failure", "m", "", "", "") == 1


def test_endpoints_that_come_and_go_are_bounded() -> None:
    counts = Counts(Names(model=lambda name: name, endpoint=lambda address: (address, "ns")))
    for number in range(MAX_ATTEMPTS + 5):
        counts.routed(record(endpoint=f"10.0.{number // 250}.{number % 250}:8000"))
    name = "llm_d_epp_scheduler_attempts"
    assert len(told(counts)[name].values) == MAX_ATTEMPTS + 1
    assert count(counts, name, "success", "other", "other", "", "") == 5


def test_lookups_are_timed_where_there_are_any() -> None:
    counts = Counts(NAMES)
    counts.routed(record(times_ms={"precise": 2.5}))
    counts.routed(record(times_ms={"precise": 0.0}, block_size=0))
    kept = histogram(counts, "llm_d_epp_kv_cache_index_lookup_latency_seconds")
    assert (sum(kept.counts), kept.total) == (1, 0.0025)


def test_a_model_that_nobody_serves_is_kept_under_the_name_it_is_told_by() -> None:
    served = {"m"}
    counts = Counts(Names(model=lambda name: name if name in served else "other"))
    for number in range(100):
        counts.routed(record(target_model=f"invented-{number}"))
        counts.refused(record(target_model=f"invented-{number}", endpoint=None))
    served.add("invented-1")
    name = "llm_d_epp_scheduler_attempts"
    assert told(counts)[name].values == {
        ("success", "other", A, "", "8000"): 100,
        ("failure", "other", "", "", ""): 100,
    }


def test_what_plugins_take_is_told_by_point_name_and_type() -> None:
    counts = Counts(NAMES)
    counts.routed(record(times_ms={"parse": 1.0, "tokens": 2.0, "wait": 0.0, "schedule": 1.0}))
    name = "llm_d_epp_plugin_duration_seconds"
    counts.timer("Scorer", "queue")(0.5)
    plugins = told(counts)[name].values
    assert set(plugins) == {
        ("Producer", "tokens-type", "tokens"),
        ("Scorer", "queue-type", "queue"),
    }
    assert histogram(counts, name, "Producer", "tokens-type", "tokens").total == 0.002


def test_matches_are_told_by_tier_with_what_was_guessed() -> None:
    counts = Counts(NAMES)
    counts.routed(record(prefix={A: HeldPrefix(3, {"gpu": 2, "cpu": 1}, 4, 3.5)}))
    counts.routed(record())
    matched = {
        tier: histogram(counts, "warmroute_match_tokens", tier).total
        for tier in ("gpu", "cpu", "guessed")
    }
    assert matched == {"gpu": 32, "cpu": 16, "guessed": 16}
    ratios = histogram(counts, "llm_d_epp_prefix_indexer_hit_ratio", "precise-type", "precise")
    assert (sum(ratios.counts), ratios.total) == (2, 1.0)


def test_a_match_is_told_in_bytes_of_the_prompt() -> None:
    counts = Counts(NAMES)
    counts.routed(record(prefix={A: HeldPrefix(3, {"gpu": 3}, 4, 3.0)}))
    counts.routed(record())
    counts.routed(record(block_size=0))
    name = "llm_d_epp_prefix_indexer_hit_bytes"
    kept = histogram(counts, name, "precise-type", "precise")
    assert kept.total == 4 * 16 * 4
    assert kept.counts[kept.bounds.index(0)] == 1
    assert kept.counts[kept.bounds.index(256)] == 1
    assert (kept.bounds[1], kept.bounds[-1]) == (16, 65536)


def test_lookups_count_the_best_holder_whoever_is_picked() -> None:
    counts = Counts(NAMES)
    counts.routed(record(prefix={B: HeldPrefix(3, {"gpu": 3}, 3, 3.0)}))
    counts.routed(record())
    counts.routed(record(block_size=0))
    index = "llm_d_epp_kv_cache_index"
    assert count(counts, f"{index}_lookup_requests") == 2
    assert count(counts, f"{index}_lookup_hits") == 1
    assert count(counts, f"{index}_max_pod_hit_count") == 3


def test_who_prefills_has_the_match_that_counts() -> None:
    counts = Counts(NAMES)
    stage = StageRecord(profile="prefill", endpoints=(B,))
    counts.routed(record(prefill=stage, prefix={B: HeldPrefix(2, {"gpu": 2}, 2, 2.0)}))
    assert histogram(counts, "warmroute_match_tokens", "gpu").total == 32


def test_engines_cannot_invent_tiers_without_end() -> None:
    counts = Counts(NAMES)
    for number in range(3 * MAX_TIERS):
        counts.routed(record(prefix={A: HeldPrefix(1, {f"tier-{number}": 1}, 1, 1.0)}))
    tiers = told(counts)["warmroute_match_tokens"].values
    assert len(tiers) == MAX_TIERS + 1
    assert sum(histogram(counts, "warmroute_match_tokens", "other").counts) == 2 * MAX_TIERS
