"""The words of MindIE Motor's `user_config.json` that concern routing, as typed structs.

Everything else in the file is read past.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec

DEFAULT_CONDUCTOR_PORT = 13333
MAX_BLOCK_SIZE = 65536

_NOT_NEGATIVE = msgspec.Meta(ge=0, le=1e9)
_Weight = Annotated[float, _NOT_NEGATIVE]
_Pattern = Annotated[
    str, msgspec.Meta(pattern=r"^(tcp://\*:[0-9]{1,5})?$", examples=["tcp://*:5557"])
]
"""An address for every rank: ``*`` is the endpoint's IP, its rank is added to the port."""
_Address = Annotated[
    str, msgspec.Meta(pattern=r"^(tcp://[^\s*/]+:[0-9]{1,5})?$", examples=["tcp://10.0.0.1:5557"])
]


class KvAffinity(msgspec.Struct, frozen=True):
    """How cached prefixes are weighed against load; see kv-affinity-scorer."""

    mode: Literal["unified", "load_gated"] = "unified"
    load_weight: _Weight = 1.0
    overlap_credit: _Weight = 1.0
    prefill_load_scale: _Weight = 1.0
    load_gate_topn: Annotated[int, msgspec.Meta(ge=0)] = 0
    w_npu: _Weight = 1.0
    w_cpu: _Weight = 1.0
    w_disk: _Weight = 0.0
    hit_rate_threshold: _Weight = 0.0


class KvConductor(msgspec.Struct, frozen=True):
    """Where events come from and how the index is asked.

    Attributes:
        block_size: Tokens per block; None: the model's usual.
        npu_endpoint: Where ranks publish the events of their own memory.
        endpoint: Older name of it.
        pool_endpoint: Where a central pool publishes its events.
    """

    block_size: Annotated[int, msgspec.Meta(ge=1, le=MAX_BLOCK_SIZE)] | None = None
    npu_endpoint: _Pattern = ""
    http_server_port: Annotated[int, msgspec.Meta(ge=1024, le=65535)] = DEFAULT_CONDUCTOR_PORT
    replay_endpoint: _Pattern = ""
    re_register_interval_sec: Annotated[int, msgspec.Meta(ge=0, le=1_000_000)] = 0
    conductor_service: str = ""
    engine_type: str = "vLLM"
    model_path: str = ""
    endpoint: _Pattern = ""
    pool_endpoint: _Address = ""
    cpu_endpoint: _Pattern = ""
    disk_endpoint: _Pattern = ""
    store_backend: str = "Mooncake"


class EngineEvents(msgspec.Struct, frozen=True):
    """What an engine is told about its events: its `kv-events-config`."""

    publisher: str = "zmq"
    enable_kv_cache_events: bool = True
    endpoint: _Pattern = ""
    topic: str = ""
    replay_endpoint: _Pattern = ""


class Engine(msgspec.Struct, frozen=True):
    """One kind of engine.

    Attributes:
        engine_config: Its own flags, of which few concern us.
    """

    engine_type: str = ""
    enable_multi_endpoints: bool | None = None
    engine_config: Mapping[str, Any] = {}


class Scheduler(msgspec.Struct, frozen=True):
    """How requests are scheduled; `kv_affinity` and `kv_conductor_config` are read apart."""

    scheduler_type: str = ""
    deploy_mode: str = ""


class MediaPorts(msgspec.Struct, frozen=True):
    """Where events come from beside those of engines about their own memory.

    Attributes:
        cpu: First port of those where ranks' CPU memory is told of; None: nowhere.
        disk: Likewise of disks.
        pool: Address of a central pool; None: there is none.
        backend: What it is.
    """

    cpu: int | None = None
    disk: int | None = None
    pool: str | None = None
    backend: str = "mooncake"


class Motor(msgspec.Struct, frozen=True):
    """What runs beside the router where the configuration is Motor's.

    Attributes:
        model: Name or path of the model; empty: not told.
        engine_type: What endpoints are called in the conductor's answers.
        block_size: Tokens per block of the index.
        port: Port of the conductor's API.
        look_again_s: Between two looks at streams that could not be opened; 0: only on changes.
    """

    model: str
    engine_type: str
    block_size: int
    media: MediaPorts
    port: int
    look_again_s: int
