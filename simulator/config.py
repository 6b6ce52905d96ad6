"""What one simulated engine is: addresses, model, cache size, speed, form of its events."""

from __future__ import annotations

from pathlib import Path

import msgspec

from simulator.clock import DECODE_S_PER_TOKEN, PREFILL_S_PER_TOKEN, Timing
from simulator.engine import MAX_BATCHED_TOKENS
from simulator.hashing import DEFAULT_SEED, Adapter
from simulator.wire import EventLayout, HashForm

BUNDLED_MODEL_DIR = Path(__file__).parent / "model"
"""A Qwen3 tokenizer of 8,192 entries with its chat template; no weights are needed."""

_LEAST_1 = (
    "block_size",
    "max_model_len",
    "concurrency",
    "max_batched_tokens",
    "max_loras",
    "ranks",
)
_LEAST_0 = ("prefill_s_per_token", "decode_s_per_token", "event_delay_s")


class EngineConfig(msgspec.Struct, frozen=True, kw_only=True):
    """
    Attributes:
        host: Address that HTTP and events bind to; `0.0.0.0` and `::` are all of them.
        port: HTTP port; 0 takes a free one, as do the two ports of the events.
        model: The served name of the base model.
        model_dir: Holds `tokenizer.json`, `tokenizer_config.json` and `config.json`.
        adapters: LoRA adapters loaded from the start, each `NAME` or `NAME=PATH`.
        num_blocks: Physical blocks, of which one is the null block.
        max_model_len: Longest prompt plus answer in tokens; the cache may bound it further.
        concurrency: Requests that run at once; more of them wait.
        max_batched_tokens: Tokens that one step computes at most.
        max_loras: Different adapters that run at once.
        kv_events_port: Port of rank 0's events, rank r has this + r; None publishes none.
        replay_port: The same for replays.
        topic: The topic frame; None is `kv@HOST:PORT@MODEL`.
        event_layout: How events are written, by vLLM's version.
        replay_topic_frame: Whether replies to a replay carry the topic, as from vLLM 0.26 on.
        hash_form: How block hashes are written.
        hash_seed: Root of all block hashes; engines with one seed hash one prompt alike.
        event_delay_s: Holds events back, as a slow network would.
        ranks: Data-parallel ranks behind the one HTTP port, each with its own cache.
        kv_transfer: Hands prompts' caches over and fetches them, as with vLLM's NixlConnector.
    """

    host: str = "127.0.0.1"
    port: int = 8000
    model: str = "tiny"
    model_dir: Path = BUNDLED_MODEL_DIR
    adapters: tuple[str, ...] = ()
    block_size: int = 16
    num_blocks: int = 16_384
    max_model_len: int = 262_144
    concurrency: int = 64
    max_batched_tokens: int = MAX_BATCHED_TOKENS
    max_loras: int = 4
    prefill_s_per_token: float = PREFILL_S_PER_TOKEN
    decode_s_per_token: float = DECODE_S_PER_TOKEN
    kv_events_port: int | None = 5557
    replay_port: int | None = 5657
    topic: str | None = None
    event_layout: EventLayout = "map"
    replay_topic_frame: bool = True
    hash_form: HashForm = "int"
    hash_seed: str = DEFAULT_SEED
    event_delay_s: float = 0.0
    ranks: int = 1
    kv_transfer: bool = False

    def __post_init__(self) -> None:
        for name in _LEAST_1:
            _check(name, getattr(self, name), 1)
        for name in _LEAST_0:
            _check(name, getattr(self, name), 0)
        _check("num_blocks", self.num_blocks, 2)
        if not self.model:
            raise ValueError("model must not be empty")
        if self.replay_port is not None and self.kv_events_port is None:
            raise ValueError("replay_port needs kv_events_port: there is nothing to replay")

    @property
    def timing(self) -> Timing:
        return Timing(
            prefill_s_per_token=self.prefill_s_per_token,
            decode_s_per_token=self.decode_s_per_token,
        )

    @property
    def context_tokens(self) -> int:
        """What `/v1/models` states: vLLM counts the null block in here, too."""
        return min(self.max_model_len, self.num_blocks * self.block_size)

    def loaded_adapters(self) -> tuple[Adapter, ...]:
        """The configured adapters, numbered from 1."""
        parts = (entry.partition("=") for entry in self.adapters)
        return tuple(
            Adapter(name, path or name, number) for number, (name, _, path) in enumerate(parts, 1)
        )


def _check(name: str, value: float, least: int) -> None:
    if value < least:
        raise ValueError(f"{name} must be at least {least}, got {value}")
