from __future__ import annotations

import pytest

from simulator.config import EngineConfig
from simulator.engine import Engine
from simulator.hashing import Adapter, Identity
from simulator.metrics import Metrics
from tests.simulator import make
from tests.simulator.recordings import CAPTURES

STARTED_S = 1_795_962_439.66
CONFIG = EngineConfig(num_blocks=129, max_model_len=1024, max_loras=2)


def observed(engine: Engine, *, ranks: int = 1) -> Metrics:
    """The metrics of an engine that has served two requests with one prompt."""
    metrics = Metrics(CONFIG, [engine] * ranks, STARTED_S)
    for _ in range(2):
        for result in make.run(engine, make.request(range(9), max_tokens=3)):
            metrics.observe(0, result)
    return metrics


def series(text: str) -> dict[str, float]:
    rows = (line.rpartition(" ") for line in text.splitlines() if not line.startswith("#"))
    return {name: float(value) for name, _, value in rows}


def value(metrics: Metrics, name: str, labels: str = 'engine="0",model_name="tiny"') -> float:
    return series(metrics.render().decode())[f"vllm:{name}{{{labels}}}"]


def recorded(name: str) -> list[str]:
    return (CAPTURES / f"vllm_metrics_{name}.txt").read_text().splitlines()


def label_names(info: str) -> set[str]:
    inside = info.partition("{")[2].partition("}")[0]
    return {part.partition("=")[0] for part in inside.split(",")}


@pytest.mark.parametrize("ranks", [1, 2])
def test_every_series_is_named_labelled_and_typed_as_recorded(ranks: int) -> None:
    metrics = observed(make.engine(), ranks=ranks)
    real = recorded("load" if ranks == 1 else "dp2")
    names = {line.rpartition(" ")[0] for line in real} | {
        line for line in real if line.startswith("# TYPE")
    }
    for line in metrics.render().decode().splitlines():
        if line.startswith("# HELP"):
            continue
        known = line if line.startswith("#") else line.rpartition(" ")[0]
        if known.startswith("vllm:cache_config_info"):
            theirs = next(name for name in names if name.startswith("vllm:cache_config_info"))
            assert label_names(known) <= label_names(theirs)
        else:
            assert known in names


def test_cache_sizes_are_stated_as_recorded() -> None:
    real = next(line for line in recorded("idle") if line.startswith("vllm:cache_config_info{"))
    ours = next(
        line
        for line in observed(make.engine()).render().decode().splitlines()
        if line.startswith("vllm:cache_config_info{")
    )
    inside = real.partition("{")[2].partition("}")[0].split(",")
    ours_inside = ours.partition("{")[2].partition("}")[0].split(",")
    assert set(ours_inside) <= set(inside)
    assert {'block_size="16"', 'num_gpu_blocks="129"'} <= set(ours_inside)


def test_prefix_cache_counters_count_tokens() -> None:
    metrics = observed(make.engine(block_size=4))
    assert value(metrics, "prefix_cache_queries_total") == 18
    assert value(metrics, "prefix_cache_hits_total") == 8
    assert value(metrics, "prompt_tokens_total") == 18
    assert value(metrics, "prompt_tokens_cached_total") == 8
    assert value(metrics, "generation_tokens_total") == 6
    sources = 'engine="0",model_name="tiny",source='
    assert value(metrics, "prompt_tokens_by_source_total", f'{sources}"local_compute"') == 10
    assert value(metrics, "prompt_tokens_by_source_total", f'{sources}"local_cache_hit"') == 8


def test_counters_do_not_grow_by_being_scraped() -> None:
    metrics = observed(make.engine(block_size=4))
    metrics.render()
    assert value(metrics, "generation_tokens_total") == 6


def test_ended_requests_are_counted_by_reason() -> None:
    metrics = observed(make.engine())
    labels = 'engine="0",finished_reason="{}",model_name="tiny"'
    assert value(metrics, "request_success_total", labels.format("length")) == 2
    assert value(metrics, "request_success_total", labels.format("stop")) == 0
    metrics.count_failure()
    assert value(metrics, "request_success_total", labels.format("error")) == 1


def test_latencies_are_observed_per_request_and_per_token() -> None:
    metrics = observed(make.engine())
    assert value(metrics, "time_to_first_token_seconds_count") == 2
    assert value(metrics, "inter_token_latency_seconds_count") == 4
    for name in ("e2e_request_latency", "request_queue_time", "request_decode_time"):
        assert value(metrics, f"{name}_seconds_count") == 2
    assert value(metrics, "request_prompt_tokens_sum") == 18
    assert value(metrics, "request_generation_tokens_sum") == 6


def test_gauges_show_the_moment_of_the_scrape() -> None:
    engine = make.engine(num_blocks=9, concurrency=1)
    metrics = Metrics(CONFIG, [engine], STARTED_S)
    for _ in range(3):
        engine.add(make.request(range(5), max_tokens=9), now_s=0)
    engine.schedule(now_s=0)
    assert value(metrics, "num_requests_running") == 1
    assert value(metrics, "num_requests_waiting") == 2
    assert value(metrics, "kv_cache_usage_perc") == 0.25
    by_reason = 'engine="0",model_name="tiny",reason="capacity"'
    assert value(metrics, "num_requests_waiting_by_reason", by_reason) == 2
    awake = 'engine="0",model_name="tiny",sleep_state="awake"'
    assert value(metrics, "engine_sleep_state", awake) == 1


def test_the_start_is_told() -> None:
    text = observed(make.engine()).render().decode()
    assert series(text)["process_start_time_seconds"] == STARTED_S


def test_adapters_are_told_with_the_time_once_one_is_used() -> None:
    engine = make.engine()
    metrics = Metrics(CONFIG, [engine], STARTED_S)
    metrics.note_adapters(0, 1.0)
    assert "vllm:lora_requests_info{" not in metrics.render().decode()
    identity = Identity(Adapter("sql-lora", "sql", 1))
    engine.add(make.request(max_tokens=1, identity=identity), now_s=0)
    engine.schedule(now_s=0)
    metrics.note_adapters(0, 2.0)
    engine.complete(now_s=0)
    metrics.note_adapters(0, 3.0)
    labels = 'max_lora="2",running_lora_adapters="{0}",waiting_lora_adapters="{0}"'
    assert value(metrics, "lora_requests_info", labels.format("sql-lora")) == 2.0
    assert value(metrics, "lora_requests_info", labels.format("")) == 3.0
    real = {line.rpartition(" ")[0] for line in recorded("load")}
    for names in ("sql-lora", ""):
        assert f"vllm:lora_requests_info{{{labels.format(names)}}}" in real
