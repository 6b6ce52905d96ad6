"""The metrics page of an engine becomes the figures the router needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from router.pool.dialects import DIALECTS
from router.pool.endpoint import EngineMetrics
from router.pool.exposition import parse_labels, read, read_labels

CAPTURES = Path(__file__).parents[2] / "captures"


def figures(*lines: str, engine: str = "vllm") -> EngineMetrics:
    return read("\n".join(lines).encode() + b"\n", DIALECTS[engine], 7.0)


def capture(name: str) -> EngineMetrics:
    return read((CAPTURES / name).read_bytes(), DIALECTS["vllm"], 7.0)


def test_reads_every_figure_of_a_recorded_page() -> None:
    assert capture("vllm_metrics_load.txt") == EngineMetrics(
        waiting=21,
        running=4,
        kv_usage=0.859375,
        block_size=16,
        gpu_blocks=129,
        process_start=1795962439.66,
        prefix_queries=20948.0,
        prefix_hits=6352.0,
        running_adapters=("sql-lora", "chat-lora"),
        waiting_adapters=("sql-lora", "chat-lora"),
        max_adapters=2,
        scraped_at=7.0,
    )


def test_counters_of_two_ranks_on_one_recorded_page_are_summed() -> None:
    metrics = capture("vllm_metrics_dp2.txt")
    assert (metrics.prefix_queries, metrics.prefix_hits) == (738 + 837, 80 + 176)
    assert metrics.gpu_blocks == 130  # of one rank


def test_queue_lengths_are_summed_over_ranks_and_usage_is_averaged() -> None:
    metrics = figures(
        'vllm:num_requests_running{engine="0"} 3',
        'vllm:num_requests_running{engine="1"} 5',
        'vllm:num_requests_waiting{engine="0"} 1',
        'vllm:num_requests_waiting{engine="1"} 10',
        'vllm:kv_cache_usage_perc{engine="0"} 0.2',
        'vllm:kv_cache_usage_perc{engine="1"} 0.8',
    )
    assert (metrics.running, metrics.waiting) == (8, 11)
    assert metrics.kv_usage == pytest.approx(0.5)


def test_series_of_a_family_count_even_where_they_stand_apart() -> None:
    metrics = figures(
        'vllm:num_requests_running{engine="0"} 3',
        "other 1",
        'vllm:num_requests_running{engine="1"} 5',
    )
    assert metrics.running == 8


@pytest.mark.parametrize(
    ("lines", "usage"),
    [
        (["vllm:gpu_cache_usage_perc 0.25"], 0.25),
        (["vllm:kv_cache_usage_perc 0.75"], 0.75),
        (["vllm:gpu_cache_usage_perc 0.25", "vllm:kv_cache_usage_perc 0.75"], 0.75),
        (["vllm:gpu_cache_usage_perc 0.25", "vllm:kv_cache_usage_perc NaN"], 0.25),
        (["vllm:kv_cache_usage_perc 1.01"], 1.0),
    ],
    ids=["old name", "new name", "both", "new name without a value", "rounded up by the engine"],
)
def test_kv_usage_is_read_under_either_name_and_the_new_one_is_preferred(
    lines: list[str], usage: float
) -> None:
    assert figures(*lines).kv_usage == usage


def test_a_figure_that_is_not_there_is_none_and_not_zero() -> None:
    assert figures("up 1") == EngineMetrics(scraped_at=7.0)


def test_a_zero_is_a_figure() -> None:
    assert figures("vllm:num_requests_waiting 0").waiting == 0


def test_a_longer_name_that_starts_the_same_is_another_family() -> None:
    metrics = figures(
        'vllm:num_requests_waiting_by_reason{reason="capacity"} 21',
        "vllm:num_requests_waiting:rate 4",
        "# HELP vllm:num_requests_waiting 9",
    )
    assert metrics.waiting is None


@pytest.mark.parametrize(
    "value",
    ["NaN", "+Inf", "-1", "many", "", "1 2 3", '{engine="0" 4', 'engine="0"} 4'],
)
def test_a_line_that_cannot_be_read_is_left_out_and_counted(value: str) -> None:
    metrics = figures(
        f"vllm:num_requests_waiting {value}", 'vllm:num_requests_waiting{engine="1"} 2'
    )
    assert (metrics.waiting, metrics.ignored_lines) == (2, 1)


def test_a_line_with_malformed_labels_is_left_out_where_labels_matter() -> None:
    metrics = figures("vllm:cache_config_info{block_size=16} 1")
    assert (metrics.block_size, metrics.ignored_lines) == (None, 1)


def test_a_timestamp_and_odd_spacing_are_no_part_of_the_value() -> None:
    metrics = figures(
        'vllm:num_requests_waiting {engine="0"}   4.0\t1795962439660\r',
        'vllm:num_requests_running\t{engine="0",} 2',
    )
    assert (metrics.waiting, metrics.running, metrics.ignored_lines) == (4, 2, 0)


def test_a_page_without_a_last_newline_is_read_to_its_end() -> None:
    assert read(b"vllm:num_requests_waiting 4", DIALECTS["vllm"], 0.0).waiting == 4


def test_braces_in_a_label_value_do_not_end_the_labels() -> None:
    metrics = figures('vllm:num_requests_waiting{model_name="a}b 9",engine="0"} 4')
    assert metrics.waiting == 4


@pytest.mark.parametrize(
    ("raw", "labels"),
    [
        (b"", {}),
        (b'a="1"', {"a": "1"}),
        (b'a="1",', {"a": "1"}),
        (b' a = "1" , b="2" ', {"a": "1", "b": "2"}),
        (b'a="x,y=\\"z\\"}",b="2"', {"a": 'x,y="z"}', "b": "2"}),
        (b'a="\\\\",b="\\n"', {"a": "\\", "b": "\n"}),
        (b'a="\\q"', {"a": "\\q"}),
        (b'a="\xff"', {"a": "�"}),
        (b"a=1", None),
        (b'a="1" b="2"', None),
        (b'a="1', None),
        (b'1a="1"', None),
    ],
)
def test_labels_are_parsed_as_the_format_says(raw: bytes, labels: dict[str, str] | None) -> None:
    assert parse_labels(raw) == labels
    assert read_labels(raw) == labels


def test_labels_too_long_to_remember_are_read_all_the_same() -> None:
    long = "x" * 10_000
    assert read_labels(f'a="{long}"'.encode()) == {"a": long}


@given(st.dictionaries(st.from_regex(r"[a-zA-Z_][a-zA-Z0-9_]{0,5}", fullmatch=True), st.text()))
def test_labels_written_by_the_rules_are_read_back(labels: dict[str, str]) -> None:
    def escaped(value: str) -> str:
        return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")

    raw = ",".join(f'{name}="{escaped(value)}"' for name, value in labels.items())
    assert parse_labels(raw.encode()) == labels


_LINE_PARTS = st.sampled_from(
    [b"\n", b"{", b"}", b'"', b"\\", b",", b" ", b"1", b"NaN", b"9" * 400, b'engine="0"', b"\xff"]
    + [family.encode() for family in ("vllm:num_requests_waiting", "vllm:lora_requests_info")]
    + [b"vllm:cache_config_info", b"process_start_time_seconds", b"vllm:kv_cache_usage_perc"]
)


@given(st.lists(_LINE_PARTS).map(b"".join) | st.binary(), st.sampled_from(sorted(DIALECTS)))
def test_no_page_raises_and_usage_stays_in_its_range(body: bytes, engine: str) -> None:
    usage = read(body, DIALECTS[engine], 0.0).kv_usage
    assert usage is None or 0 <= usage <= 1


@pytest.mark.parametrize(
    ("states", "asleep"),
    [(["1"], False), (["0"], True), (["1", "0"], True), ([], False)],
    ids=["awake", "asleep", "one rank asleep", "not said"],
)
def test_an_engine_sleeps_when_a_rank_says_it_is_not_awake(states: list[str], asleep: bool) -> None:
    lines = [
        f'vllm:engine_sleep_state{{engine="{i}",sleep_state="awake"}} {state}\n'
        f'vllm:engine_sleep_state{{engine="{i}",sleep_state="discard_all"}} 0'
        for i, state in enumerate(states)
    ]
    assert figures(*lines).asleep is asleep


def test_the_newest_report_of_adapters_counts() -> None:
    metrics = figures(
        'vllm:lora_requests_info{max_lora="4",running_lora_adapters="old"} 5',
        'vllm:lora_requests_info{max_lora="4",running_lora_adapters="a, b",'
        'waiting_lora_adapters="c"} 9',
        'vllm:lora_requests_info{max_lora="4",running_lora_adapters=""} 2',
    )
    assert metrics.running_adapters == ("a", "b")
    assert metrics.waiting_adapters == ("c",)
    assert metrics.max_adapters == 4


def test_a_number_of_blocks_that_is_not_known_yet_is_none() -> None:
    metrics = figures('vllm:cache_config_info{block_size="16",num_gpu_blocks="None"} 1')
    assert (metrics.block_size, metrics.gpu_blocks) == (16, None)


def test_sglang_ranks_are_summed_without_copies_and_parts() -> None:
    def series(dp: int, tp: int, value: int, priority: str = "") -> str:
        labels = f'dp_rank="{dp}",tp_rank="{tp}",pp_rank="0",priority="{priority}"'
        return f"sglang:num_running_reqs{{{labels}}} {value}"

    metrics = figures(
        *[series(0, 0, 3), series(0, 1, 3), series(1, 2, 5), series(1, 2, 4, "high")],
        'sglang:num_queue_reqs{tp_rank="0"} 2',
        'sglang:num_queue_reqs{tp_rank="1"} 2',
        "sglang:token_usage 0.4",
        'sglang:cache_config_info{page_size="64",num_pages="1000"} 1',
        "sglang:prompt_tokens_total 900",
        'sglang:cached_tokens_total{cache_source="device"} 300',
        'sglang:cached_tokens_total{cache_source="host"} 30',
        engine="sglang",
    )
    assert (metrics.running, metrics.waiting, metrics.kv_usage) == (8, 2, 0.4)
    assert (metrics.block_size, metrics.gpu_blocks) == (64, 1000)
    assert (metrics.prefix_queries, metrics.prefix_hits) == (900, 330)


def test_trtllm_serve_is_read_under_its_own_names() -> None:
    metrics = figures(
        "trtllm_num_requests_waiting 2",
        "trtllm_num_requests_running 3",
        "trtllm_kv_cache_utilization 0.5",
        "trtllm_kv_cache_tokens_per_block 32",
        "trtllm_kv_cache_max_blocks 500",
        engine="trtllm-serve",
    )
    assert metrics == EngineMetrics(
        waiting=2, running=3, kv_usage=0.5, block_size=32, gpu_blocks=500, scraped_at=7.0
    )


def test_triton_figures_are_told_apart_by_a_label() -> None:
    metrics = figures(
        'nv_trt_llm_request_metrics{model="m",request_type="waiting"} 2',
        'nv_trt_llm_request_metrics{model="m",request_type="scheduled"} 3',
        'nv_trt_llm_request_metrics{model="m",request_type="max"} 512',
        'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="fraction"} 0.5',
        'nv_trt_llm_kv_cache_block_metrics{kv_cache_block_type="max"} 100',
        engine="triton-tensorrt-llm",
    )
    assert (metrics.waiting, metrics.running) == (2, 3)
    assert (metrics.kv_usage, metrics.gpu_blocks) == (0.5, 100)
