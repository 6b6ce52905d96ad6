from __future__ import annotations

from router.telemetry import index_samples
from router.telemetry.metrics import Metrics
from tests.router.producers.test_prefix import A, B, Fixture, removed, stored


def test_what_came_to_the_index_and_left_it_is_published() -> None:
    fixture = Fixture()
    metrics = Metrics(lambda _: True)
    metrics.watch(lambda: index_samples.samples(fixture.prefix))
    fixture.announce(A, stored([1, 2, 3], range(48)), stored([1], range(16)), removed(1, 2))
    fixture.announce(B, stored([1], range(16)))
    fixture.announce(B, stored([5], range(16), group_idx=0, kv_cache_spec_kind="linear"))
    fixture.announce(B, {**removed(5), "group_idx": 0})

    def value(name: str, **labels: str) -> float | None:
        return metrics.registry.get_sample_value(f"llm_d_epp_kv_cache_{name}_total", labels)

    # A's first block came twice: one removal takes a copy.
    assert (value("index_admissions"), value("index_evictions")) == (4, 2)
    assert value("events_dedup_removed_hashes_suppressed") == 1
    assert value("events_dedup_removed_hashes_forwarded") == 1
    refused = {"reason": "unsupported_group"}
    assert value("events_stores_skipped", cache_kind="other", **refused) == 1
    assert value("events_removals_skipped", cache_kind="unknown", **refused) == 1


def test_before_anything_came_the_counters_are_there() -> None:
    metrics = Metrics(lambda _: True)
    metrics.watch(lambda: index_samples.samples(Fixture().prefix))
    for name in ("admissions", "evictions"):
        assert metrics.registry.get_sample_value(f"llm_d_epp_kv_cache_index_{name}_total") == 0
