"""The pool's figures for the metrics page: load, who is ready, what engines say of their caches."""

from __future__ import annotations

import statistics
from collections.abc import Iterator, Sequence

from router.admission.saturation import Detector
from router.pool.endpoint import Endpoint
from router.producers.facts import Facts, InFlight
from router.producers.inflight import InFlightLoad
from router.telemetry.samples import Sample, Values

_LABEL = ("model_server_endpoint",)
_POOL = ("name",)
_QUEUE = ("llm_d_epp_average_queue_size", "llm_d_epp_std_dev_queue_size")
_RUNNING = ("llm_d_epp_average_running_requests", "llm_d_epp_std_dev_running_requests")
_KV_CACHE = ("llm_d_epp_average_kv_cache_utilization", "llm_d_epp_std_dev_kv_cache_utilization")


def samples(endpoints: Sequence[Endpoint], pool: str) -> Iterator[Sample]:
    """`pool`: what the pool is called."""
    ready: Values = {(pool,): float(sum(e.alive for e in endpoints))}
    yield Sample("llm_d_epp_ready_endpoints", "Endpoints that can be picked.", ready, _POOL)
    waiting: Values = {
        (pool, e.address): float(e.metrics.waiting)
        for e in endpoints
        if e.metrics is not None and e.metrics.waiting is not None
    }
    labels = (*_POOL, *_LABEL)
    yield Sample("llm_d_epp_per_endpoint_queue_size", "Requests waiting.", waiting, labels)
    yield from _averages(endpoints, pool)
    told = [(e.address, e.metrics) for e in endpoints if e.metrics is not None]
    hits: Values = {(a,): m.prefix_hits for a, m in told if m.prefix_hits is not None}
    queries: Values = {(a,): m.prefix_queries for a, m in told if m.prefix_queries is not None}
    text = "Tokens, as engines say."
    yield Sample("warmroute_engine_prefix_hits", text, hits, _LABEL, True)
    yield Sample("warmroute_engine_prefix_queries", text, queries, _LABEL, True)
    ages: Values = {(a,): m.scraped_at for a, m in told}
    text = "Unix time of the last good scrape."
    yield Sample("warmroute_endpoint_scraped_timestamp_seconds", text, ages, _LABEL)


def saturation(
    detector: Detector,
    endpoints: Sequence[Endpoint],
    loads: Sequence[InFlightLoad],
    pool: str,
    now: float,
) -> Iterator[Sample]:
    """How full the pool is; `now` is Unix time."""
    if not endpoints:
        return
    facts = Facts(now=now)
    for load in loads:
        facts.put(InFlight(load.requests, load.tokens), load.name)
    value: Values = {(pool, "effective"): detector.saturation(endpoints, facts)}
    text = "From 1 on the pool is full."
    labels = ("inference_pool", "stage")
    yield Sample("llm_d_epp_flow_control_pool_saturation", text, value, labels)


def _averages(endpoints: Sequence[Endpoint], pool: str) -> Iterator[Sample]:
    told = [e.metrics for e in endpoints if e.metrics is not None]
    for mean_name, spread_name, text, values in (
        (*_QUEUE, "Requests waiting", [m.waiting for m in told]),
        (*_RUNNING, "Requests running", [m.running for m in told]),
        (*_KV_CACHE, "Share of KV cache in use", [m.kv_usage for m in told]),
    ):
        known = [float(value) for value in values if value is not None]
        if not known:
            continue
        mean: Values = {(pool,): statistics.fmean(known)}
        spread: Values = {(pool,): statistics.pstdev(known)}
        yield Sample(mean_name, f"{text}, on average.", mean, _POOL)
        yield Sample(spread_name, f"{text}, how endpoints differ.", spread, _POOL)
