"""The engine's metrics in vLLM's names, labels and buckets, as Prometheus text."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import msgspec
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from simulator.config import EngineConfig
from simulator.engine import Engine
from simulator.types import Counts, Finished, StepResult

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"

_COUNTERS = {
    "prefix_cache_queries": ("Tokens looked up in the prefix cache.", "queried"),
    "prefix_cache_hits": ("Tokens found in the prefix cache.", "hit"),
    "external_prefix_cache_queries": ("Tokens looked up in other engines' caches.", None),
    "external_prefix_cache_hits": ("Tokens found in other engines' caches.", None),
    "num_preemptions": ("Times that a running request lost its blocks.", "preemptions"),
    "prompt_tokens": ("Prompt tokens of requests whose prefill ended.", "prompt"),
    "prompt_tokens_cached": ("Those of them that came from the cache.", "prompt_cached"),
    "generation_tokens": ("Sampled tokens.", "generated"),
}
"""Name: what it counts, and the engine's count behind it; None for what never happens here."""

_LATENCY_S = (
    *(0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0),
    *(120.0, 240.0, 480.0, 960.0, 1920.0, 7680.0),
)
_FIRST_TOKEN_S = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
_TOKEN_S = (
    *(0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5),
    *(10.0, 20.0, 40.0, 80.0),
)
_LATENCIES = {
    "time_to_first_token_seconds": ("Arrival to first token.", _FIRST_TOKEN_S),
    "inter_token_latency_seconds": ("Token to next token.", _TOKEN_S),
    "request_time_per_output_token_seconds": ("Mean of that per request.", _TOKEN_S),
    "e2e_request_latency_seconds": ("Arrival to end.", _LATENCY_S),
    "request_queue_time_seconds": ("Arrival to admission.", _LATENCY_S),
    "request_inference_time_seconds": ("Admission to end.", _LATENCY_S),
    "request_prefill_time_seconds": ("Admission to first token.", _LATENCY_S),
    "request_decode_time_seconds": ("First token to end.", _LATENCY_S),
}
_SIZES = {
    "request_prompt_tokens": "Prompt tokens of a request.",
    "request_generation_tokens": "Sampled tokens of a request.",
    "request_params_max_tokens": "Limit that a request set.",
    "request_prefill_kv_computed_tokens": "Prompt tokens of a request that were computed.",
}

_REASONS = ("stop", "length", "abort", "error", "repetition")

_CACHE_CONFIG = {
    "_block_size_resolved": "True",
    "cache_dtype": "auto",
    "cache_hit_alignment_tokens": "None",
    "enable_prefix_caching": "True",
    "gpu_memory_utilization": "0.92",
    "hash_block_size": "None",
    "is_attention_free": "False",
    "num_cpu_blocks": "None",
    "prefix_caching_hash_algo": "sha256",
    "sliding_window": "None",
    "user_specified_block_size": "True",
}
"""What a configured engine says of its cache beside the sizes."""


class _Rank:
    """The series that carry one rank's label, with the counts as last exposed."""

    def __init__(self, number: int, engine: Engine) -> None:
        self.label = str(number)
        self.engine = engine
        self.exposed = Counts()


class Metrics:
    """All series of one engine, in a registry of its own."""

    def __init__(
        self, config: EngineConfig, engines: Sequence[Engine], started_unix_s: float
    ) -> None:
        self._model = config.model
        self._max_loras = config.max_loras
        self._registry = CollectorRegistry()
        self._ranks = [_Rank(number, engine) for number, engine in enumerate(engines)]
        started = Gauge(
            "process_start_time_seconds", "Unix time of the start.", registry=self._registry
        )
        started.set(round(started_unix_s, 2))
        self._gauges()
        self._counters = {name: self._counter(name, doc) for name, (doc, _) in _COUNTERS.items()}
        self._by_source = self._counter("prompt_tokens_by_source", "By origin.", "source")
        self._success = self._counter("request_success", "Ended requests.", "finished_reason")
        self._histograms = self._make_histograms(config.context_tokens)
        self._loras = self._lora_gauge() if config.adapters else None
        self._cache_config(config)
        for rank in self._ranks:
            self._start_at_zero(rank)

    def render(self) -> bytes:
        """The text of all series, as a scrape gets it."""
        for rank in self._ranks:
            self._expose_counts(rank)
        return generate_latest(self._registry)

    def observe(self, number: int, result: StepResult) -> None:
        """Account for a step of rank `number`."""
        rank = self._ranks[number]
        for seconds in result.first_token_s:
            self._observe(rank, "time_to_first_token_seconds", seconds)
        for seconds in result.between_tokens_s:
            self._observe(rank, "inter_token_latency_seconds", seconds)
        for finished in result.finished:
            self._observe_finished(rank, finished)

    def count_failure(self) -> None:
        """Account for a request that met an error of ours."""
        self._success.labels(self._ranks[0].label, self._model, "error").inc()

    def note_adapters(self, number: int, unix_s: float) -> None:
        """Say which adapters rank `number` uses now; an engine that never had one stays silent.

        The waiting ones include the running ones, as seen on a real engine.
        """
        engine = self._ranks[number].engine
        running = ",".join(engine.running_adapters)
        unfinished = ",".join(engine.unfinished_adapters)
        if self._loras is None and unfinished:
            self._loras = self._lora_gauge()
        if self._loras is not None:
            self._loras.labels(str(self._max_loras), running, unfinished).set(unix_s)

    def _observe_finished(self, rank: _Rank, finished: Finished) -> None:
        self._success.labels(rank.label, self._model, finished.reason.value).inc()
        figures = {
            "e2e_request_latency_seconds": finished.e2e_s,
            "request_queue_time_seconds": finished.queue_s,
            "request_inference_time_seconds": finished.prefill_s + finished.decode_s,
            "request_prefill_time_seconds": finished.prefill_s,
            "request_decode_time_seconds": finished.decode_s,
            "request_prompt_tokens": finished.prompt_tokens,
            "request_generation_tokens": finished.output_tokens,
            "request_params_max_tokens": finished.max_tokens,
            "request_prefill_kv_computed_tokens": finished.prompt_tokens - finished.cached_tokens,
            "request_time_per_output_token_seconds": (
                finished.decode_s / max(1, finished.output_tokens - 1)
            ),
        }
        for name, value in figures.items():
            self._observe(rank, name, value)

    def _observe(self, rank: _Rank, name: str, value: float) -> None:
        self._histograms[name].labels(rank.label, self._model).observe(value)

    def _expose_counts(self, rank: _Rank) -> None:
        """Bring the counters up to the engine's own counts."""
        now, before = rank.engine.counts, rank.exposed
        for name, (_, field) in _COUNTERS.items():
            if field is not None:
                grown = getattr(now, field) - getattr(before, field)
                self._counters[name].labels(rank.label, self._model).inc(grown)
        cached = now.prompt_cached - before.prompt_cached
        computed = now.prompt - before.prompt - cached
        for source, grown in (("local_compute", computed), ("local_cache_hit", cached)):
            self._by_source.labels(rank.label, self._model, source).inc(grown)
        rank.exposed = msgspec.structs.replace(now)

    def _gauges(self) -> None:
        labels = ("engine", "model_name")
        running = self._gauge("num_requests_running", "Requests in steps.", *labels)
        waiting = self._gauge("num_requests_waiting", "Requests in the queue.", *labels)
        reasons = self._gauge("num_requests_waiting_by_reason", "By reason.", *labels, "reason")
        usage = self._gauge("kv_cache_usage_perc", "Share of held blocks, 0 to 1.", *labels)
        sleep = self._gauge("engine_sleep_state", "1 for the state.", *labels, "sleep_state")
        for rank in self._ranks:
            engine, names = rank.engine, (rank.label, self._model)
            running.labels(*names).set_function(partial(getattr, engine, "running"))
            waiting.labels(*names).set_function(partial(getattr, engine, "waiting"))
            reasons.labels(*names, "capacity").set_function(partial(getattr, engine, "waiting"))
            reasons.labels(*names, "deferred")
            usage.labels(*names).set_function(partial(getattr, engine.cache, "usage"))
            for state, value in (("awake", 1), ("weights_offloaded", 0), ("discard_all", 0)):
                sleep.labels(*names, state).set(value)

    def _make_histograms(self, context_tokens: int) -> dict[str, Histogram]:
        sizes = _one_two_five(context_tokens)
        families = {**_LATENCIES, **{name: (doc, sizes) for name, doc in _SIZES.items()}}
        return {
            name: Histogram(
                f"vllm:{name}",
                doc,
                ["engine", "model_name"],
                buckets=buckets,
                registry=self._registry,
            )
            for name, (doc, buckets) in families.items()
        }

    def _cache_config(self, config: EngineConfig) -> None:
        tokens = config.num_blocks * config.block_size
        sizes = {
            "block_size": config.block_size,
            "effective_attention_block_size": config.block_size,
            "kv_cache_max_concurrency": tokens / config.context_tokens,
            "kv_cache_size_tokens": tokens,
            "num_gpu_blocks": config.num_blocks,
            "num_gpu_blocks_override": config.num_blocks,
        }
        labels = _CACHE_CONFIG | {name: str(value) for name, value in sizes.items()}
        info = self._gauge("cache_config_info", "The cache's configuration.", "engine", *labels)
        for rank in self._ranks:
            info.labels(rank.label, *labels.values()).set(1)

    def _start_at_zero(self, rank: _Rank) -> None:
        """Make the series appear before anything has happened."""
        names = (rank.label, self._model)
        for metric in (*self._counters.values(), *self._histograms.values()):
            metric.labels(*names)
        for source in ("local_compute", "local_cache_hit", "external_kv_transfer"):
            self._by_source.labels(*names, source)
        for reason in _REASONS:
            self._success.labels(*names, reason)

    def _lora_gauge(self) -> Gauge:
        labels = ("max_lora", "running_lora_adapters", "waiting_lora_adapters")
        return self._gauge("lora_requests_info", "Adapters in use; the latest counts.", *labels)

    def _gauge(self, name: str, doc: str, *labels: str) -> Gauge:
        return Gauge(f"vllm:{name}", doc, labels, registry=self._registry)

    def _counter(self, name: str, doc: str, *labels: str) -> Counter:
        names = ("engine", "model_name", *labels)
        return Counter(f"vllm:{name}", doc, names, registry=self._registry)


def _one_two_five(most: int) -> tuple[float, ...]:
    """1, 2, 5, 10, 20, 50 and so on, as far as `most`."""
    steps = (float(digit * 10**power) for power in range(len(str(most))) for digit in (1, 2, 5))
    return tuple(step for step in steps if step <= most)
