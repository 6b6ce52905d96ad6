"""Older names of metrics, for dashboards that still ask for them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import msgspec
from prometheus_client.core import Metric

from router.telemetry.samples import LLMD, Collects


class Twin(msgspec.Struct, frozen=True):
    """An older name.

    Attributes:
        name: The family's, a counter's without ``_total``.
        renamed: Label -> its older name.
        dropped: Labels it did not have; values that differ only there are added up.
    """

    name: str
    renamed: Mapping[str, str] = {}
    dropped: frozenset[str] = frozenset()


_OBJECTIVE = "inference_objective_"
_POOL = "inference_pool_"
_EXTENSION = "inference_extension_"
_SCHEDULER = "llm_d_inference_scheduler_"

_NO_FAIRNESS = frozenset({"fairness_id"})
_MODEL_ONLY = frozenset({"fairness_id", "priority", "target_model_name"})


def _of_requests(name: str) -> Twin:
    return Twin(f"{_OBJECTIVE}{name}", dropped=_NO_FAIRNESS)


_INDEX = (
    "kv_cache_index_admissions",
    "kv_cache_index_evictions",
    "kv_cache_index_lookup_requests",
    "kv_cache_index_lookup_hits",
    "kv_cache_index_lookup_latency_seconds",
    "kv_cache_index_max_pod_hit_count",
)

_EVENTS = (
    "kv_cache_events_active_subscribers",
    "kv_cache_events_dedup_removed_hashes_forwarded",
    "kv_cache_events_dedup_removed_hashes_suppressed",
    "kv_cache_events_messages_received",
    "kv_cache_events_pool_capacity",
    "kv_cache_events_pool_queue_depth",
    "kv_cache_events_removals_skipped",
    "kv_cache_events_stores_skipped",
    "kv_cache_events_subscriber_reconnections",
    "kv_cache_events_zmq_errors",
)

TWINS: Mapping[str, Twin] = {
    "request": _of_requests("request"),
    "request_error": _of_requests("request_error"),
    "request_duration_seconds": _of_requests("request_duration_seconds"),
    "request_size_bytes": _of_requests("request_sizes"),
    "response_size_bytes": _of_requests("response_sizes"),
    "request_input_tokens": _of_requests("input_tokens"),
    "request_output_tokens": _of_requests("output_tokens"),
    "request_cached_tokens": _of_requests("prompt_cached_tokens"),
    "request_running": Twin(f"{_OBJECTIVE}running_requests", dropped=_MODEL_ONLY),
    "request_ntpot_seconds": _of_requests("normalized_time_per_output_token_seconds"),
    "average_kv_cache_utilization": Twin(f"{_POOL}average_kv_cache_utilization"),
    "average_queue_size": Twin(f"{_POOL}average_queue_size"),
    "average_running_requests": Twin(f"{_POOL}average_running_requests"),
    "std_dev_kv_cache_utilization": Twin(f"{_POOL}std_dev_kv_cache_utilization"),
    "std_dev_queue_size": Twin(f"{_POOL}std_dev_queue_size"),
    "std_dev_running_requests": Twin(f"{_POOL}std_dev_running_requests"),
    "ready_endpoints": Twin(f"{_POOL}ready_pods"),
    "per_endpoint_queue_size": Twin(
        f"{_POOL}per_pod_queue_size", {"model_server_endpoint": "model_server_pod"}
    ),
    "scheduler_e2e_duration_seconds": Twin(f"{_EXTENSION}scheduler_e2e_duration_seconds"),
    "scheduler_attempts": Twin(f"{_EXTENSION}scheduler_attempts", {"endpoint_name": "pod_name"}),
    "plugin_duration_seconds": Twin(f"{_EXTENSION}plugin_duration_seconds"),
    "prefix_indexer_size": Twin(f"{_EXTENSION}prefix_indexer_size"),
    "prefix_indexer_hit_ratio": Twin(f"{_EXTENSION}prefix_indexer_hit_ratio"),
    "prefix_indexer_hit_bytes": Twin(f"{_EXTENSION}prefix_indexer_hit_bytes"),
    "info": Twin(f"{_EXTENSION}info"),
    "flow_control_pool_saturation": Twin(f"{_EXTENSION}flow_control_pool_saturation"),
    "model_rewrite_decisions": Twin(f"{_EXTENSION}model_rewrite_decisions"),
    "datalayer_poll_errors": Twin(f"{_SCHEDULER}datalayer_poll_errors"),
    "datalayer_extract_errors": Twin(f"{_SCHEDULER}datalayer_extract_errors"),
    "disagg_decision": Twin(f"{_SCHEDULER}disagg_decision"),
    **{name: Twin(name.replace("kv_cache_index", "kvcache_index")) for name in _INDEX},
    **{name: Twin(name.replace("kv_cache_events", "kvcache_kvevents")) for name in _EVENTS},
}
"""Name without llm-d's prefix -> what it was called before."""


class WithLegacyNames:
    """A registry under both names."""

    def __init__(self, registry: Collects) -> None:
        self._registry = registry

    def collect(self) -> Iterator[Metric]:
        for metric in self._registry.collect():
            yield metric
            twin = TWINS.get(metric.name.removeprefix(LLMD))
            if twin is not None and metric.name.startswith(LLMD):
                yield _older(metric, twin)


def _older(metric: Metric, twin: Twin) -> Metric:
    older = Metric(twin.name, metric.documentation, metric.type)
    added: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    for sample in metric.samples:
        labels = tuple(
            (twin.renamed.get(label, label), value)
            for label, value in sample.labels.items()
            if label not in twin.dropped
        )
        key = twin.name + sample.name.removeprefix(metric.name), labels
        added[key] = added.get(key, 0.0) + sample.value
    for (name, pairs), value in added.items():
        older.add_sample(name, dict(pairs), value)
    return older
