"""What the author of a Motor file should know: what has no effect here, and what cannot work."""

from __future__ import annotations

from collections.abc import Iterator

from router.config import nearest, notes
from router.config.motor_file import MotorFile, Part
from router.config.motor_schema import EngineEvents, KvAffinity, KvConductor
from router.config.notes import Note

_POOLS = ("mooncake", "memcache")
_ENGINE = "vllm"
_PUBLISHER = "zmq"


def about(file: MotorFile) -> Iterator[Note]:
    """Everything but what is filled in."""
    yield from _unknown(file.affinity_part, KvAffinity)
    for part in file.conductors:
        yield from _unknown(part, KvConductor)
    for place, meant in file.misspelled:
        key = place.rpartition(".")[2]
        yield notes.warning(f"{key!r} is read past; did you mean {meant!r}?", place)
    yield from _overruled(file)
    yield from _conductor(file)
    yield from _affinity(file)
    for role, told in file.events.items():
        yield from _events(file, role, told)
    yield from _engines(file)


def _unknown(part: Part, cls: type) -> Iterator[Note]:
    """Keys that mean nothing here: probably misspelled, possibly newer."""
    known = cls.__struct_fields__  # type: ignore[attr-defined]
    for key in part.data:
        if key not in known:
            said = f"{key!r} is read past; {nearest.suggest(key, known)}"
            yield notes.warning(said, f"{part.path}.{key}")


def _overruled(file: MotorFile) -> Iterator[Note]:
    for outer in file.conductors[:-1]:
        inner = file.conductors[-1]
        for key, value in outer.data.items():
            if key in inner.data and value != inner.data[key]:
                said = f"{key} stands in {inner.path}, too, and that counts"
                yield notes.no_effect(said, f"{outer.path}.{key}")


def _conductor(file: MotorFile) -> Iterator[Note]:
    conductor = file.conductor
    said = "the index is in this process, and its API on the port http_server_port"
    yield notes.no_effect(f"conductor_service: {said}", file.place("conductor_service"))
    pooled = conductor.store_backend.strip().lower() in _POOLS
    if pooled and not conductor.pool_endpoint:
        said = f"no pool_endpoint: of {conductor.store_backend} only what engines say is known"
        yield notes.no_effect(said, file.place("pool_endpoint"))
    unused = ("cpu_endpoint", "disk_endpoint") if pooled else ("pool_endpoint",)
    for key in unused:
        if getattr(conductor, key):
            said = f"{key} is not for the store_backend {conductor.store_backend}"
            yield notes.warning(said, file.place(key))
    if conductor.npu_endpoint and conductor.endpoint:
        yield notes.no_effect("npu_endpoint counts", file.place("endpoint"))


def _affinity(file: MotorFile) -> Iterator[Note]:
    affinity, told = file.affinity, file.affinity_part
    gated = affinity.mode == "load_gated"
    unused = ("load_weight", "overlap_credit", "prefill_load_scale") if gated else ()
    for key in (*unused, *(() if gated else ("load_gate_topn",))):
        if key in told.data:
            said = f"{key} is for the other mode than {affinity.mode}"
            yield notes.no_effect(said, f"{told.path}.{key}")


def _events(file: MotorFile, role: str, told: EngineEvents) -> Iterator[Note]:
    path = f"$.motor_engine_{role}_config.engine_config.kv-events-config"
    if told.publisher != _PUBLISHER or not told.enable_kv_cache_events:
        said = f"engines publish no events: publisher {_PUBLISHER!r} and enable_kv_cache_events"
        yield notes.warning(f"{said} are needed", path)
    if role != file.scored:
        return
    pairs = (("endpoint", file.events_endpoint), ("replay_endpoint", file.replay_endpoint))
    for key, (chosen, where) in pairs:
        own = getattr(told, key)
        if own and chosen and own != chosen:
            said = f"engines use {own}, and {where} says {chosen}, which counts"
            yield notes.warning(said, f"{path}.{key}")


def _engines(file: MotorFile) -> Iterator[Note]:
    for role, engine in file.engines.items():
        path = f"$.motor_engine_{role}_config"
        if engine.engine_type and engine.engine_type.lower() != _ENGINE:
            said = f"engine_type {engine.engine_type!r}: events are read in the form of vLLM's"
            yield notes.warning(said, f"{path}.engine_type")
        if engine.enable_multi_endpoints is not None or role == "union":
            said = "enable_multi_endpoints: each rank is an endpoint of the endpoints file"
            yield notes.no_effect(said, f"{path}.enable_multi_endpoints")
        if role == file.scored and role not in file.events:
            said = "no kv-events-config: engines publish no events unless told otherwise"
            yield notes.warning(said, f"{path}.engine_config")
