"""Reads Motor's file: its parts as typed structs, and where each of them stands."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from router.config import nearest, plugins
from router.config.errors import ConfigError
from router.config.motor_schema import Engine, EngineEvents, KvAffinity, KvConductor, Scheduler

_T = TypeVar("_T")

CONDUCTOR = "kv_conductor_config"
SCHEDULER = "$.motor_coordinator_config.scheduler_config"
SINGLE_NODE = "single_node"
_COORDINATOR = "motor_coordinator_config"

_ALIKE = 0.9
"""How alike a key is to ours that is taken for a slip; Motor has further sections of its own."""

ROLES = ("prefill", "decode", "union")

_PARALLEL = ("decode-context-parallel-size", "decode_context_parallel_size", "dcp")
"""How an engine is told over how many ranks it spreads the context it decodes."""

_MODELS = ("served-model-name", "served_model_name", "model")
"""How an engine is told what it serves."""


class Part(msgspec.Struct, frozen=True):
    """A section of the file and where it stands."""

    path: str
    data: Mapping[str, Any]


class MotorFile(msgspec.Struct, frozen=True):
    """The file.

    Attributes:
        affinity_part: `kv_affinity` as it stands there.
        conductors: Every `kv_conductor_config`; of a key that stands in several the last counts.
        engines: Role -> its section.
        misspelled: Places of keys that are read past, and what they probably should be.
        events: Role -> what its engines are told about events.
    """

    scheduler: Scheduler
    affinity: KvAffinity
    affinity_part: Part
    conductor: KvConductor
    conductors: Sequence[Part]
    engines: Mapping[str, Engine]
    events: Mapping[str, EngineEvents]
    misspelled: Sequence[tuple[str, str]]

    def place(self, key: str) -> str:
        """Where a key of `kv_conductor_config` stands, or could."""
        holding = [part.path for part in self.conductors if key in part.data]
        anywhere = [part.path for part in self.conductors] or [f"$.{CONDUCTOR}"]
        return f"{(holding or anywhere)[-1]}.{key}"

    @property
    def is_split(self) -> bool:
        """Prefill and decode run on engines of their own."""
        if self.scheduler.deploy_mode == SINGLE_NODE or "union" in self.engines:
            return False
        return "prefill" in self.engines and "decode" in self.engines

    @property
    def layout_reason(self) -> str:
        if self.scheduler.deploy_mode == SINGLE_NODE:
            return f"deploy_mode is {SINGLE_NODE}"
        sections = " and ".join(f"motor_engine_{role}_config" for role in self.engines)
        return f"there is {sections}" if sections else "no engines are told of"

    @property
    def layout_place(self) -> str:
        if self.scheduler.deploy_mode == SINGLE_NODE:
            return f"{SCHEDULER}.deploy_mode"
        role = next(iter(self.engines), None)
        return f"$.motor_engine_{role}_config" if role else "$"

    @property
    def scored(self) -> str | None:
        """The role whose engines are chosen by what they hold."""
        order = ("prefill", "union", "decode") if self.is_split else ("union", "prefill", "decode")
        return next((role for role in order if role in self.engines), None)

    @property
    def model(self) -> str:
        """What the engines serve, as far as it is told."""
        told = [self.conductor.model_path]
        for engine in self.engines.values():
            flags = engine.engine_config
            told += [str(flags[key]) for key in _MODELS if key in flags]
        return next(filter(None, told), "")

    @property
    def context_parallel(self) -> int:
        engine = self.engines.get(self.scored or "")
        flags = engine.engine_config if engine else {}
        sizes = (flags[key] for key in _PARALLEL if key in flags)
        return next((size for size in sizes if isinstance(size, int) and size > 1), 1)

    @property
    def events_endpoint(self) -> tuple[str, str]:
        """Address of events, and where it stands: the conductor's word before the engine's."""
        for key in ("npu_endpoint", "endpoint"):
            if getattr(self.conductor, key):
                return getattr(self.conductor, key), self.place(key)
        return self._of_engine("endpoint")

    @property
    def replay_endpoint(self) -> tuple[str, str]:
        """Likewise of replays."""
        if self.conductor.replay_endpoint:
            return self.conductor.replay_endpoint, self.place("replay_endpoint")
        return self._of_engine("replay_endpoint")

    def _of_engine(self, key: str) -> tuple[str, str]:
        role = self.scored or "union"
        path = f"$.motor_engine_{role}_config.engine_config.kv-events-config.{key}"
        return (getattr(self.events[role], key) if role in self.events else ""), path


def read(data: Mapping[str, Any]) -> MotorFile:
    """Raises ConfigError that names a place of the file."""
    coordinator = _section(data, _COORDINATOR, "$")
    scheduler = _section(coordinator.data, "scheduler_config", coordinator.path)
    affinity = _section(scheduler.data, "kv_affinity", scheduler.path)
    conductors = [
        part
        for outer in (Part("$", data), scheduler)
        if (part := _section(outer.data, CONDUCTOR, outer.path)).data
    ]
    for part in conductors:
        _decoded(part, KvConductor)
    merged = {key: value for part in conductors for key, value in part.data.items()}
    engines = dict(_engines(data))
    return MotorFile(
        scheduler=_decoded(scheduler, Scheduler),
        affinity=_decoded(affinity, KvAffinity),
        affinity_part=affinity,
        conductor=_decoded(Part(f"$.{CONDUCTOR}", merged), KvConductor),
        conductors=conductors,
        engines=engines,
        events={role: told for role, engine in engines.items() if (told := _events(role, engine))},
        misspelled=tuple(_misspelled(data)),
    )


def _misspelled(data: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Keys where sections stand that look very much like one of ours that is not there."""
    coordinator = _section(data, _COORDINATOR, "$")
    places = [
        (Part("$", data), (_COORDINATOR, CONDUCTOR, *map(_engine_section, ROLES))),
        (coordinator, ("scheduler_config",)),
        (
            _section(coordinator.data, "scheduler_config", coordinator.path),
            ("scheduler_type", "deploy_mode", "kv_affinity", CONDUCTOR),
        ),
        *((_section(data, _engine_section(r), "$"), Engine.__struct_fields__) for r in ROLES),
    ]
    for part, known in places:
        for key in map(str, part.data):
            meant = nearest.near(key, known, _ALIKE)
            if meant is not None and meant not in part.data:
                yield f"{part.path}.{key}", meant


def _engine_section(role: str) -> str:
    return f"motor_engine_{role}_config"


def _engines(data: Mapping[str, Any]) -> Iterator[tuple[str, Engine]]:
    for role in ROLES:
        section = _section(data, _engine_section(role), "$")
        if section.data:
            yield role, _decoded(section, Engine)


def _events(role: str, engine: Engine) -> EngineEvents | None:
    """What stands there, as an object or as the text of a command line."""
    path = f"$.motor_engine_{role}_config.engine_config.kv-events-config"
    told = engine.engine_config.get("kv-events-config")
    if isinstance(told, str):
        try:
            told = json.loads(told)
        except ValueError as error:
            raise ConfigError(f"no JSON: {error} - at `{path}`") from error
    if told is None:
        return None
    if not isinstance(told, dict):
        raise ConfigError(f"expected an object - at `{path}`")
    return _decoded(Part(path, _told(told)), EngineEvents)


def _section(data: Mapping[str, Any], key: str, path: str) -> Part:
    """A part of the file; without anything in it where it is not there."""
    where = f"{path}.{key}"
    section = data.get(key)
    if section is not None and not isinstance(section, dict):
        raise ConfigError(f"expected an object - at `{where}`")
    return Part(where, _told(section or {}))


def _told(data: Mapping[Any, Any]) -> dict[str, Any]:
    """What is set; null is as good as nothing."""
    return {str(key): value for key, value in data.items() if value is not None}


def _decoded(part: Part, cls: type[_T]) -> _T:
    """Raises ConfigError."""
    return plugins.decoded(part.data, cls, part.path)
