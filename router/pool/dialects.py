"""What each kind of engine calls the figures the router reads, as one table.

The names are those of llm-d's `core-metrics-extractor`; older spellings follow the present one.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

ENGINE_LABELS = ("llm-d.ai/engine-type", "inference.networking.k8s.io/engine-type")
"""Endpoint labels that name the kind of engine, preferred first."""

DEFAULT_ENGINE = "vllm"


class Family(msgspec.Struct, frozen=True):
    """The series of one metric name that carry the given label values."""

    name: str
    where: Mapping[str, str] = {}


class CacheInfo(msgspec.Struct, frozen=True, kw_only=True):
    """A series whose labels, not its value, describe the KV cache."""

    name: str
    block_size: str
    gpu_blocks: str


class Dialect(msgspec.Struct, frozen=True, kw_only=True):
    """Where one kind of engine publishes each figure; of several families the first present counts.

    Attributes:
        cache: The cache's description, for engines that put it into labels.
        block_size: Tokens per block, for engines that publish it as a value.
        gpu_blocks: Number of blocks, likewise.
        adapters: LoRA adapters as labels; the value is the time of the report.
        sleep: One series per sleep state, 1 for the present one.
        copy_labels: Series that differ only in these labels repeat one figure.
        part_labels: A series with one of these set is a part of the one where it is empty.
        custom: Further figures by the attribute they become.
    """

    waiting: tuple[Family, ...]
    running: tuple[Family, ...]
    kv_usage: tuple[Family, ...] = ()
    prefix_queries: tuple[Family, ...] = ()
    prefix_hits: tuple[Family, ...] = ()
    cache: CacheInfo | None = None
    block_size: tuple[Family, ...] = ()
    gpu_blocks: tuple[Family, ...] = ()
    adapters: str | None = None
    sleep: str | None = None
    copy_labels: frozenset[str] = frozenset()
    part_labels: frozenset[str] = frozenset()
    custom: tuple[tuple[str, Family], ...] = ()

    @property
    def keys(self) -> frozenset[str]:
        """The attributes that its further figures become."""
        return frozenset(key for key, _ in self.custom)


_TRITON_REQUESTS = "nv_trt_llm_request_metrics"
_TRITON_BLOCKS = "nv_trt_llm_kv_cache_block_metrics"

DIALECTS: Mapping[str, Dialect] = {
    "vllm": Dialect(
        waiting=(Family("vllm:num_requests_waiting"),),
        running=(Family("vllm:num_requests_running"),),
        kv_usage=(Family("vllm:kv_cache_usage_perc"), Family("vllm:gpu_cache_usage_perc")),
        prefix_queries=(
            Family("vllm:prefix_cache_queries_total"),
            Family("vllm:gpu_prefix_cache_queries_total"),
        ),
        prefix_hits=(
            Family("vllm:prefix_cache_hits_total"),
            Family("vllm:gpu_prefix_cache_hits_total"),
        ),
        cache=CacheInfo(
            name="vllm:cache_config_info", block_size="block_size", gpu_blocks="num_gpu_blocks"
        ),
        adapters="vllm:lora_requests_info",
        sleep="vllm:engine_sleep_state",
    ),
    "sglang": Dialect(
        waiting=(Family("sglang:num_queue_reqs"),),
        running=(Family("sglang:num_running_reqs"),),
        kv_usage=(Family("sglang:token_usage"),),
        prefix_queries=(Family("sglang:prompt_tokens_total"),),
        prefix_hits=(Family("sglang:cached_tokens_total"),),
        cache=CacheInfo(
            name="sglang:cache_config_info", block_size="page_size", gpu_blocks="num_pages"
        ),
        # Data-parallel ranks have a label of their own, dp_rank; the others compute one batch.
        copy_labels=frozenset({"tp_rank", "pp_rank", "moe_ep_rank", "pid"}),
        part_labels=frozenset({"priority"}),
    ),
    "trtllm-serve": Dialect(
        waiting=(Family("trtllm_num_requests_waiting"),),
        running=(Family("trtllm_num_requests_running"),),
        kv_usage=(Family("trtllm_kv_cache_utilization"),),
        block_size=(Family("trtllm_kv_cache_tokens_per_block"),),
        gpu_blocks=(Family("trtllm_kv_cache_max_blocks"),),
    ),
    "triton-tensorrt-llm": Dialect(
        waiting=(Family(_TRITON_REQUESTS, {"request_type": "waiting"}),),
        running=(Family(_TRITON_REQUESTS, {"request_type": "scheduled"}),),
        kv_usage=(Family(_TRITON_BLOCKS, {"kv_cache_block_type": "fraction"}),),
        block_size=(Family(_TRITON_BLOCKS, {"kv_cache_block_type": "tokens_per"}),),
        gpu_blocks=(Family(_TRITON_BLOCKS, {"kv_cache_block_type": "max"}),),
    ),
    "triton": Dialect(
        waiting=(Family("nv_inference_pending_request_count"),),
        running=(Family("nv_inference_exec_count"),),
    ),
}


class Dialects(msgspec.Struct, frozen=True):
    """Which dialect an endpoint's page is read in.

    Attributes:
        labels: Endpoint labels that name the kind of engine, preferred first.
        default: Kind of an endpoint whose labels name none we know.
        table: Kind -> dialect.
    """

    labels: tuple[str, ...] = ENGINE_LABELS
    default: str = DEFAULT_ENGINE
    table: Mapping[str, Dialect] = msgspec.field(default_factory=lambda: DIALECTS)

    def of(self, labels: Mapping[str, str]) -> Dialect:
        """The dialect an endpoint's labels name."""
        for label in self.labels:
            if label in labels:
                return self.table.get(labels[label], self.table[self.default])
        return self.table[self.default]
