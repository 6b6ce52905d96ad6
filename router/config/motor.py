"""MindIE Motor's `user_config.json` -> the plugins that do the same, and what runs beside them.

The result is an EndpointPickerConfig like any other; what the file's author should know of it is
told in the words and places of the file itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from router.config import motor_notes, notes
from router.config.errors import ConfigError
from router.config.motor_file import MotorFile, read
from router.config.motor_schema import KvAffinity, MediaPorts, Motor
from router.config.notes import Note
from router.config.schema import API_VERSIONS, EndpointPickerConfig

AFFINITY = "kv_cache_affinity"
"""The scheduler type that goes by cached prefixes."""

DEFAULT_BLOCK_SIZE = 128
DEEPSEEK_V4_BLOCK_SIZE = 512
DEFAULT_EVENTS_PORT = 5557

_DEEPSEEK_V4 = re.compile(r"deepseek[-_ ]?v4", re.IGNORECASE)
_POOLS = ("mooncake", "memcache")
"""Backends that are one service; any other has ports per rank."""

PREFIXES = "precise-prefix-cache-producer"
LOADS = "inflight-load-producer"
FEWEST = "active-request-scorer"

AMONG_EQUALS = 0.001
"""Weight of what decides only where everything else is equal."""

_Ref = Mapping[str, str | float]
"""A plugin of a profile."""


class Translated(msgspec.Struct, frozen=True):
    """What a file comes to."""

    config: EndpointPickerConfig
    motor: Motor
    notes: tuple[Note, ...]


def is_motor(data: object) -> bool:
    """Whether this is a file of Motor's, by its content."""
    if not isinstance(data, dict) or "kind" in data or "apiVersion" in data:
        return False
    return any(str(key).startswith(("motor_", "kv_conductor")) for key in data)


def translate(data: Mapping[str, Any]) -> Translated:
    """Raises ConfigError."""
    file = read(data)
    found: list[Note] = [*motor_notes.about(file)]
    motor = _motor(file, found)
    stages = _stages(file, found)
    plugins = [*_producers(file, motor, found), *_members(file, found)]
    config = {
        "apiVersion": API_VERSIONS[0],
        "kind": "EndpointPickerConfig",
        "plugins": [*plugins, *(_handler(stages))],
        "dataLayer": {
            "sources": [
                {
                    "pluginRef": "endpoint-notification-source",
                    "extractors": [{"pluginRef": PREFIXES}],
                }
            ]
        },
        "schedulingProfiles": [{"name": name, "plugins": refs} for name, refs in stages.items()],
    }
    return Translated(msgspec.convert(config, EndpointPickerConfig), motor, tuple(found))


# -- what runs beside ---------------------------------------------------------------------------


def _motor(file: MotorFile, found: list[Note]) -> Motor:
    conductor = file.conductor
    return Motor(
        model=conductor.model_path,
        engine_type=conductor.engine_type,
        block_size=_block_size(file, found),
        media=_media(file),
        port=conductor.http_server_port,
        look_again_s=conductor.re_register_interval_sec,
    )


def _block_size(file: MotorFile, found: list[Note]) -> int:
    size, path = file.conductor.block_size, file.place("block_size")
    if size is None:
        is_large = _DEEPSEEK_V4.search(file.model) is not None
        size = DEEPSEEK_V4_BLOCK_SIZE if is_large else DEFAULT_BLOCK_SIZE
        why = f"{file.model} is a DeepSeek V4" if is_large else "it is not told"
        found.append(notes.filled_in(f"block_size {size}: {why}", path))
    parallel = file.context_parallel
    if parallel > 1:
        said = f"block_size {size} x {parallel} = {size * parallel}: context is decoded in parallel"
        found.append(notes.filled_in(said, path))
    return size * parallel


def _media(file: MotorFile) -> MediaPorts:
    conductor = file.conductor
    backend = conductor.store_backend.strip().lower()
    if backend in _POOLS:
        return MediaPorts(pool=conductor.pool_endpoint or None, backend=backend)
    return MediaPorts(
        cpu=_port(conductor.cpu_endpoint, file.place("cpu_endpoint")),
        disk=_port(conductor.disk_endpoint, file.place("disk_endpoint")),
        backend="yuanrong",
    )


# -- plugins ------------------------------------------------------------------------------------


def _producers(file: MotorFile, motor: Motor, found: list[Note]) -> Iterator[dict[str, Any]]:
    events = _port(*file.events_endpoint)
    if events is None:
        events = DEFAULT_EVENTS_PORT
        said = f"tcp://*:{events}: no address of events is told"
        found.append(notes.filled_in(said, file.place("npu_endpoint")))
    weights = {"gpu": file.affinity.w_npu, "cpu": file.affinity.w_cpu, "disk": file.affinity.w_disk}
    replays = _port(*file.replay_endpoint) or 0
    yield {"type": "token-producer"}
    yield {
        "type": PREFIXES,
        "parameters": {
            "tokenProcessorConfig": {"blockSize": motor.block_size},
            "indexerConfig": {
                "kvCacheBackendConfigs": [
                    {"name": name, "weight": weight} for name, weight in weights.items()
                ]
            },
            "kvEventsConfig": {
                "podDiscoveryConfig": {"socketPort": events, "replaySocketPort": replays}
            },
        },
    }
    yield {"type": LOADS}
    yield {"type": "endpoint-notification-source"}


def _members(file: MotorFile, found: list[Note]) -> Iterator[dict[str, Any]]:
    """Everything a profile may list."""
    affinity = file.affinity
    if file.scheduler.scheduler_type == AFFINITY:
        if affinity.mode == "load_gated":
            yield {"type": "load-gate-filter", "parameters": {"topN": affinity.load_gate_topn}}
        yield _scorer("kv-affinity-scorer", affinity)
    else:
        said = f"requests are balanced by load: only {AFFINITY} goes by cached prefixes"
        found.append(notes.warning(said, "$.motor_coordinator_config.scheduler_config"))
    if file.is_split or file.scheduler.scheduler_type != AFFINITY:
        yield _scorer("load", KvAffinity(prefill_load_scale=0.0))
    if file.is_split:
        yield from ({"type": kind} for kind in ("prefill-filter", "decode-filter"))
        yield {"type": "always-disagg-pd-decider"}
        yield {"type": FEWEST, "parameters": {"inFlightLoadProducerName": LOADS}}
    yield {"type": "max-score-picker"}


def _scorer(name: str, affinity: KvAffinity) -> dict[str, Any]:
    return {
        "type": "kv-affinity-scorer",
        "name": name,
        "parameters": {
            "mode": affinity.mode,
            "loadWeight": affinity.load_weight,
            "overlapCredit": affinity.overlap_credit,
            "prefillLoadScale": affinity.prefill_load_scale,
            "wNpu": affinity.w_npu,
            "wCpu": affinity.w_cpu,
            "wDisk": affinity.w_disk,
            "hitRateThreshold": affinity.hit_rate_threshold,
            "prefixMatchInfoProducerName": PREFIXES,
            "inFlightLoadProducerName": LOADS,
        },
    }


def _stages(file: MotorFile, found: list[Note]) -> dict[str, Sequence[_Ref]]:
    """The profiles and their plugins. Who only decodes is chosen by load, and as long as all its
    prompts are computed elsewhere, which is no load, by how many requests it decodes."""
    affine = ["load"]
    if file.scheduler.scheduler_type == AFFINITY:
        gate = ["load-gate-filter"] if file.affinity.mode == "load_gated" else []
        affine = [*gate, "kv-affinity-scorer"]
    layout = "prefill and decode apart" if file.is_split else "combined"
    said = f"layout: {layout}: {file.layout_reason}"
    found.append(notes.filled_in(said, file.layout_place))
    if not file.is_split:
        return {"default": _refs([*affine, "max-score-picker"])}
    return {
        "prefill": _refs(["prefill-filter", *affine, "max-score-picker"]),
        "decode": [
            *_refs(["decode-filter", "load"]),
            {"pluginRef": FEWEST, "weight": AMONG_EQUALS},
            *_refs(["max-score-picker"]),
        ],
    }


def _refs(names: Sequence[str]) -> list[_Ref]:
    return [{"pluginRef": name} for name in names]


def _handler(stages: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if "prefill" in stages:
        deciders = {"prefill": "always-disagg-pd-decider"}
        yield {"type": "disagg-profile-handler", "parameters": {"deciders": deciders}}


def _port(endpoint: str, path: str) -> int | None:
    """The first port of an address pattern. Raises ConfigError."""
    if not endpoint:
        return None
    port = int(endpoint.rpartition(":")[2])
    if not 1 <= port <= 65535:
        raise ConfigError(f"{port} is no port - at `{path}`")
    return port
