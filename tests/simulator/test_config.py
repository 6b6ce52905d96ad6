from __future__ import annotations

import msgspec
import pytest

from simulator.config import EngineConfig
from simulator.hashing import Adapter


def test_an_engine_has_the_documented_defaults() -> None:
    config = EngineConfig()
    assert (config.block_size, config.num_blocks, config.concurrency) == (16, 16_384, 64)
    assert (config.port, config.kv_events_port, config.replay_port) == (8000, 5557, 5657)
    assert config.context_tokens == 262_144


def test_a_small_cache_bounds_the_context() -> None:
    assert EngineConfig(num_blocks=129).context_tokens == 2064
    assert EngineConfig(num_blocks=129, max_model_len=1024).context_tokens == 1024


def test_adapters_are_numbered_in_load_order_and_may_name_a_path() -> None:
    config = EngineConfig(adapters=("sql", "chat=/loras/chat"))
    assert config.loaded_adapters() == (
        Adapter("sql", "sql", 1),
        Adapter("chat", "/loras/chat", 2),
    )


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("block_size", 0),
        ("num_blocks", 1),
        ("concurrency", 0),
        ("ranks", 0),
        ("max_loras", 0),
        ("decode_s_per_token", -1.0),
        ("event_delay_s", -0.1),
    ],
)
def test_a_value_that_cannot_work_is_refused_by_name(field: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{field} must be at least"):
        msgspec.structs.replace(EngineConfig(), **{field: value})


def test_a_model_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="model must not be empty"):
        EngineConfig(model="")


def test_replays_without_events_are_refused() -> None:
    with pytest.raises(ValueError, match="needs kv_events_port"):
        EngineConfig(kv_events_port=None)
    assert EngineConfig(kv_events_port=None, replay_port=None).replay_port is None


def test_speeds_reach_the_timing_model() -> None:
    timing = EngineConfig(prefill_s_per_token=1.0, decode_s_per_token=2.0).timing
    assert timing.step_s(prefill_tokens=3, decoding=1) == 5.0
