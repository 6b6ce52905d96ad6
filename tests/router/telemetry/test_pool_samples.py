from __future__ import annotations

from router.producers.facts import Facts
from router.producers.inflight import InFlightLoad
from router.scheduling.filters.concurrency_detector import ConcurrencyDetector
from router.telemetry.pool_samples import samples, saturation
from tests.support import make

A, B, C = (f"10.0.0.{i}:8000" for i in (1, 2, 3))


def test_averages_are_over_the_endpoints_that_tell() -> None:
    endpoints = [
        make.endpoint(A, waiting=2, running=4, kv_usage=0.25),
        make.endpoint(B, waiting=6, running=4, kv_usage=0.75),
        make.endpoint(C, alive=False),
    ]
    told = {sample.name: sample.values for sample in samples(endpoints, "pool")}
    assert told["llm_d_epp_ready_endpoints"] == {("pool",): 2}
    assert told["llm_d_epp_average_queue_size"] == {("pool",): 4}
    assert told["llm_d_epp_std_dev_queue_size"] == {("pool",): 2}
    assert told["llm_d_epp_average_running_requests"] == {("pool",): 4}
    assert told["llm_d_epp_std_dev_running_requests"] == {("pool",): 0}
    assert told["llm_d_epp_average_kv_cache_utilization"] == {("pool",): 0.5}
    assert told["llm_d_epp_per_endpoint_queue_size"] == {("pool", A): 2, ("pool", B): 6}


def test_before_the_first_scrape_there_are_no_averages() -> None:
    told = {sample.name for sample in samples([make.endpoint(A)], "")}
    assert "llm_d_epp_average_queue_size" not in told


def test_an_engine_that_counts_no_hits_is_told_of_none() -> None:
    endpoints = [make.endpoint(A, prefix_hits=3.0, prefix_queries=9.0), make.endpoint(B, waiting=0)]
    told = {sample.name: sample.values for sample in samples(endpoints, "")}
    assert told["warmroute_engine_prefix_hits"] == {(A,): 3}
    assert told["warmroute_engine_prefix_queries"] == {(A,): 9}


def test_how_full_the_pool_is_comes_from_the_detector_in_force() -> None:
    load = InFlightLoad("load")
    load.decided(make.request(), Facts(), make.decision(A))
    detector = ConcurrencyDetector(max_concurrency=2)
    endpoints = [make.endpoint(A), make.endpoint(B)]
    (sample,) = saturation(detector, endpoints, [load], "pool", 1.0)
    assert sample.values == {("pool", "effective"): 0.25}
    assert list(saturation(detector, [], [load], "pool", 1.0)) == []
