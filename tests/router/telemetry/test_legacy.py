from __future__ import annotations

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from router.telemetry.legacy import TWINS, Twin, WithLegacyNames
from router.telemetry.metrics import Metrics
from tests.router.telemetry.test_metrics import record


def page(registry: CollectorRegistry) -> dict[str, list[tuple[dict[str, str], float]]]:
    text = generate_latest(WithLegacyNames(registry)).decode()
    samples: dict[str, list[tuple[dict[str, str], float]]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            samples.setdefault(sample.name, []).append((dict(sample.labels), sample.value))
    return samples


def test_labels_are_renamed() -> None:
    registry = CollectorRegistry()
    name, labels = "llm_d_epp_per_endpoint_queue_size", ("name", "model_server_endpoint")
    Gauge(name, "Text.", labels, registry=registry).labels("p", "a:1").set(7)
    told = page(registry)
    assert told[name] == [({"name": "p", "model_server_endpoint": "a:1"}, 7)]
    older = "inference_pool_per_pod_queue_size"
    assert told[older] == [({"name": "p", "model_server_pod": "a:1"}, 7)]


def test_the_pools_saturation_has_its_older_name() -> None:
    registry = CollectorRegistry()
    labels, name = {"inference_pool": "p", "stage": "effective"}, "flow_control_pool_saturation"
    Gauge(f"llm_d_epp_{name}", "Text.", labels, registry=registry).labels(**labels).set(0.5)
    assert page(registry)[f"inference_extension_{name}"] == [(labels, 0.5)]


def test_what_differs_only_in_a_label_that_was_not_there_is_added_up() -> None:
    registry = CollectorRegistry()
    labels = ("model_name", "target_model_name", "fairness_id", "priority")
    counter = Counter("llm_d_epp_request", "Text.", labels, registry=registry)
    for tenant, count in (("a", 2), ("b", 3)):
        counter.labels("m", "m", tenant, "0").inc(count)
    expected = {"model_name": "m", "target_model_name": "m", "priority": "0"}
    assert page(registry)["inference_objective_request_total"] == [(expected, 5)]


def test_histograms_keep_their_buckets() -> None:
    registry = CollectorRegistry()
    name = "llm_d_epp_scheduler_e2e_duration_seconds"
    Histogram(name, "Text.", buckets=(1, 2), registry=registry).observe(1.5)
    told = page(registry)
    older = "inference_extension_scheduler_e2e_duration_seconds"
    assert [value for _, value in told[f"{older}_bucket"]] == [0, 1, 1]
    assert told[f"{older}_sum"] == [({}, 1.5)]


@pytest.mark.parametrize(
    ("name", "older"),
    [
        ("prefix_indexer_hit_bytes", "inference_extension_prefix_indexer_hit_bytes"),
        ("datalayer_extract_errors", "llm_d_inference_scheduler_datalayer_extract_errors"),
        ("kv_cache_index_admissions", "kvcache_index_admissions"),
        ("kv_cache_index_evictions", "kvcache_index_evictions"),
        ("kv_cache_index_lookup_hits", "kvcache_index_lookup_hits"),
        ("kv_cache_events_zmq_errors", "kvcache_kvevents_zmq_errors"),
        ("kv_cache_events_pool_queue_depth", "kvcache_kvevents_pool_queue_depth"),
        (
            "kv_cache_events_dedup_removed_hashes_forwarded",
            "kvcache_kvevents_dedup_removed_hashes_forwarded",
        ),
        ("kv_cache_events_stores_skipped", "kvcache_kvevents_stores_skipped"),
    ],
)
def test_what_is_told_of_indexes_and_events_has_its_older_name(name: str, older: str) -> None:
    assert TWINS[name] == Twin(older)


def test_other_metrics_have_one_name() -> None:
    registry = CollectorRegistry()
    Gauge("warmroute_info", "Text.", registry=registry).set(1)
    Gauge("llm_d_epp_unheard_of", "Text.", registry=registry).set(1)
    assert set(page(registry)) == {"warmroute_info", "llm_d_epp_unheard_of"}


def test_older_names_are_published_only_where_they_are_wanted() -> None:
    for wanted in (False, True):
        metrics = Metrics(lambda _: True, legacy_names=wanted)
        metrics.routed(record())
        text = generate_latest(metrics.published).decode()
        assert ("inference_objective_request_total{" in text) is wanted
        assert "llm_d_epp_request_total{" in text


def test_no_older_name_is_given_twice() -> None:
    names = [twin.name for twin in TWINS.values()]
    assert len(names) == len(set(names))
