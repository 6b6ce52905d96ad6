from __future__ import annotations

import re
from typing import Any

import msgspec
import pytest

from router.pool import exposition
from router.pool.core_metrics import CoreMetricsParameters
from router.pool.dialects import DIALECTS, Dialects
from router.pool.endpoint import EngineMetrics

PAGE = b"""\
vllm:num_requests_waiting 1
vllm:num_requests_running 2
vllm:kv_cache_usage_perc 0.5
my_queue{kind="text",rank="0"} 3
my_queue{kind="text",rank="1"} 4
my_queue{kind="image",rank="0"} 100
my_running 5
my_usage{rank="0"} 0.2
my_usage{rank="1"} 0.4
my_block_size 32
my_blocks 1000
my_cache{size="64",count="2000"} 1
my_lora{running_lora_adapters="old",max_lora="2"} 10
my_lora{running_lora_adapters="new",waiting_lora_adapters="w",max_lora="2"} 20
my_power 350
"""


def parameters(**fields: Any) -> CoreMetricsParameters:
    return msgspec.convert(fields, CoreMetricsParameters)


def read(dialects: Dialects, **labels: str) -> EngineMetrics:
    return exposition.read(PAGE, dialects.of(labels), 1.0)


MINE = {
    "name": "mine",
    "queuedRequestsSpec": "my_queue{kind=text}",
    "runningRequestsSpec": "my_running",
    "kvUsageSpec": "my_usage",
    "loraSpec": "my_lora",
    "cacheBlockSizeSpec": "my_block_size",
    "cacheNumBlocksSpec": "my_blocks",
}


def test_what_is_built_in_is_read_where_nothing_is_said() -> None:
    assert parameters().dialects() == Dialects()
    assert read(parameters().dialects()).waiting == 1


def test_a_kind_of_engine_of_ones_own_is_read_by_its_label() -> None:
    dialects = parameters(engineLabelKey="engine", engineConfigs=[MINE]).dialects()
    metrics = read(dialects, engine="mine")
    assert (metrics.waiting, metrics.running) == (7, 5)
    assert metrics.kv_usage == pytest.approx(0.3)
    assert (metrics.block_size, metrics.gpu_blocks) == (32, 1000)
    assert (metrics.running_adapters, metrics.waiting_adapters) == (("new",), ("w",))
    assert metrics.max_adapters == 2
    assert read(dialects).waiting == 1
    assert read(dialects, **{"llm-d.ai/engine-type": "mine"}).waiting == 7


def test_endpoints_that_do_not_say_are_of_the_default_kind() -> None:
    assert read(parameters(defaultEngine="mine", engineConfigs=[MINE]).dialects()).waiting == 7


def test_what_is_left_out_is_as_built_in_for_that_name() -> None:
    config = {"name": "vllm", "queuedRequestsSpec": "my_queue{kind=image}"}
    metrics = read(parameters(engineConfigs=[config]).dialects())
    assert (metrics.waiting, metrics.running, metrics.kv_usage) == (100, 2, 0.5)
    assert DIALECTS["vllm"].waiting[0].name == "vllm:num_requests_waiting"


def test_a_cache_may_be_described_by_labels() -> None:
    config = {
        "name": "vllm",
        "cacheInfoSpec": "my_cache",
        "cacheBlockSizeLabelName": "size",
        "cacheNumBlocksLabelName": "count",
    }
    metrics = read(parameters(engineConfigs=[config]).dialects())
    assert (metrics.block_size, metrics.gpu_blocks) == (64, 2000)


def test_further_figures_are_attributes_and_the_mean_of_several_series() -> None:
    custom = [
        {"attributeKey": "Power", "metricSpec": "my_power"},
        {"attributeKey": "Usage", "metricSpec": "my_usage"},
        {"attributeKey": "Absent", "metricSpec": "nothing"},
    ]
    dialect = (
        parameters(engineConfigs=[{"name": "vllm", "customMetrics": custom}]).dialects().of({})
    )
    found = exposition.attributes(PAGE, dialect)
    assert found == {"Power": 350.0, "Usage": pytest.approx(0.3)}
    assert dialect.keys == {"Power", "Usage", "Absent"}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"engineConfigs": [{"name": "default"}]}, "'default' is reserved"),
        ({"engineConfigs": [MINE, MINE]}, "names 'mine' twice"),
        ({"defaultEngine": "nobody"}, "'nobody' is none of: vllm, sglang"),
        ({"engineConfigs": [{"name": "a", "kvUsageSpec": "{"}]}, "$.engineConfigs[0]"),
        (
            {"engineConfigs": [{"name": "a", "customMetrics": [{"attributeKey": "k"}]}]},
            "missing required field `metricSpec`",
        ),
    ],
)
def test_a_mistake_is_told_with_its_place(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(msgspec.ValidationError, match=re.escape(said)):
        parameters(**fields)
