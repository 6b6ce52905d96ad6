"""Parameters of precise-prefix-cache-producer, in llm-d's words.

Fields that steer a private choice of another implementation (hash seed and algorithm, storage of
the index, worker counts) are accepted and have no effect.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

from indexer.media import tier_of
from router.config.duration import seconds

_BlockSize = Annotated[int, msgspec.Meta(ge=0, le=65536)]
_AtLeast1 = Annotated[int, msgspec.Meta(ge=1)]


class _Camel(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pass


class Bounds(msgspec.Struct, frozen=True):
    """What an index may take, in bytes; None: no bound. No parameter, but said beside them.

    Attributes:
        index_bytes: For all blocks together.
        index_bytes_per_endpoint: For those of one endpoint.
    """

    index_bytes: int | None = None
    index_bytes_per_endpoint: int | None = None


UNBOUNDED = Bounds()


class TokenProcessor(_Camel, frozen=True):
    """
    Attributes:
        block_size_tokens: Tokens per block of the index; engines' blocks are multiples of it.
        block_size: Older name of it.
        hash_seed: Has no effect.
        hash_algorithm: Has no effect.
    """

    block_size_tokens: _BlockSize = 0
    block_size: _BlockSize = 0
    hash_seed: str = ""
    hash_algorithm: str = ""

    def in_force(self) -> Mapping[str, object]:
        """Parameters that come to another value."""
        return {"blockSizeTokens": self.tokens}

    @property
    def tokens(self) -> int:
        """Tokens per block; 16 where nothing is said, as in vLLM."""
        return self.block_size_tokens or self.block_size or 16


class TierWeight(_Camel, frozen=True):
    """What a block in a tier is worth, beside one in GPU memory."""

    name: Annotated[str, msgspec.Meta(min_length=1)]
    weight: Annotated[float, msgspec.Meta(ge=0, le=1e9)]


class IndexStorage(_Camel, frozen=True):
    """Has no effect: the index lives in this process."""

    in_memory_config: dict[str, Any] | None = None
    redis_config: dict[str, Any] | None = None
    cost_aware_memory_config: dict[str, Any] | None = None
    enable_metrics: bool = False
    metrics_logging_interval: int | str = 0


class Indexer(_Camel, frozen=True):
    """
    Attributes:
        kv_cache_backend_configs: Tiers and their weights; a tier that is not named weighs 1.
    """

    kv_block_index_config: IndexStorage = IndexStorage()
    kv_cache_backend_configs: list[TierWeight] = msgspec.field(
        default_factory=lambda: [TierWeight("gpu", 1.0), TierWeight("cpu", 0.8)]
    )


class PodDiscovery(_Camel, frozen=True):
    """
    Attributes:
        pod_label_selector: Has no effect: the pool's own endpoints are followed.
        pod_namespace: Has no effect.
        socket_port: Port of an engine's events; rank r is one of r ports above it.
        replay_socket_port: Port of its replays; 0: none.
    """

    pod_label_selector: str = ""
    pod_namespace: str = ""
    socket_port: Annotated[int, msgspec.Meta(ge=1, le=65535)] = 5557
    replay_socket_port: Annotated[int, msgspec.Meta(ge=0, le=65535)] = 0


class KvEvents(_Camel, frozen=True):
    """
    Attributes:
        zmq_endpoint: ZMQ address to bind, for engines that connect to it; empty: none. Whose
            events a message carries is taken from its topic, `kv@IP:PORT@MODEL`.
        topic_filter: Only messages whose topic starts like this count; empty: all, and those that
            start with `kv@` on the bound address.
        concurrency: Has no effect.
        engine_type: Has no effect: the form of an event tells.
        discover_pods: Connect to each endpoint; False: only to those that name their events.
        count_repeats: A block stored twice takes two removals; False for engines that announce
            resident blocks again.
    """

    zmq_endpoint: Annotated[
        str, msgspec.Meta(pattern=r"^((tcp|ipc)://\S+)?$", examples=["tcp://0.0.0.0:5557"])
    ] = ""
    topic_filter: str = ""
    concurrency: _AtLeast1 = 4
    engine_type: Literal["", "vllm", "sglang"] = ""
    discover_pods: bool = True
    pod_discovery_config: PodDiscovery = PodDiscovery()
    count_repeats: bool = True


class PrecisePrefixParameters(_Camel, frozen=True):
    """
    Attributes:
        speculative_indexing: Credit an endpoint with what was just sent to it, before its events
            say so.
        speculative_ttl: How long such a guess lives after the engine started to answer.
    """

    token_processor_config: TokenProcessor = TokenProcessor()
    indexer_config: Indexer = Indexer()
    kv_events_config: KvEvents = KvEvents()
    speculative_indexing: bool = False
    speculative_ttl: str = msgspec.field(default="2s", name="speculativeTTL")

    def __post_init__(self) -> None:
        # Raised while decoding, so that the message carries the path of these parameters.
        seconds(self.speculative_ttl or "2s", "speculativeTTL")

    @property
    def ttl_s(self) -> float:
        """`speculative_ttl`; nothing or nothing positive means 2 seconds."""
        return seconds(self.speculative_ttl or "2s", "speculativeTTL") or 2.0

    @property
    def weights(self) -> dict[str, float]:
        """Tier -> weight, best tier first."""
        return {tier_of(t.name): t.weight for t in self.indexer_config.kv_cache_backend_configs}
