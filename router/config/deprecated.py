"""Older words of a configuration: what they are called now, and what becomes of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec

from router.config import notes
from router.config.notes import Note
from router.config.schema import API_VERSIONS, EndpointPickerConfig, PluginEntry, Reference

Parameters = Mapping[str, Any]


def _same(parameters: Parameters) -> Parameters:
    return parameters


def _as_conditions(parameters: Parameters) -> Parameters:
    """The one limit of active-request-filter, as utilization-filter writes it."""
    rest = {name: value for name, value in parameters.items() if name != "maxRequests"}
    condition = {"metric": "active-requests", "maxValue": parameters.get("maxRequests")}
    return {"conditions": [condition], **rest}


RENAMED: Mapping[str, tuple[str, Callable[[Parameters], Parameters]]] = {
    "tokenizer": ("token-producer", _same),
    "by-label-selector": ("label-selector-filter", _same),
    "active-request-filter": ("utilization-filter", _as_conditions),
}
"""Older plugin type -> its present name, and what becomes of its parameters."""

OUTDATED: Mapping[str, str] = {
    "by-label": "label-selector-filter",
    "pd-profile-handler": "disagg-profile-handler",
    "disagg-headers-handler": "nothing: profile handlers write these headers themselves",
    "prefill-header-handler": "nothing: profile handlers write these headers themselves",
    "precise-prefix-cache-scorer": "precise-prefix-cache-producer and prefix-cache-scorer",
}
"""Plugin type that still runs under its own name -> what llm-d has in its stead."""

_PRECISE = "precise-prefix-cache-producer"
_WRAPPER = "precise-prefix-cache-scorer"
_APPROX = "approx-prefix-cache-producer"
_DISAGG = "disagg-profile-handler"

OUTDATED_PARAMETERS: Mapping[tuple[str, str], str] = {
    (_PRECISE, "tokenProcessorConfig.blockSize"): "tokenProcessorConfig.blockSizeTokens",
    (_WRAPPER, "tokenProcessorConfig.blockSize"): "tokenProcessorConfig.blockSizeTokens",
    (_APPROX, "blockSize"): "blockSizeTokens",
    (_APPROX, "maxPrefixBlocksToMatch"): "maxPrefixTokensToMatch",
    ("token-producer", "udsTokenizerConfig"): "vllm, or sidecar",
    (_DISAGG, "decodeProfile"): "profiles.decode",
    (_DISAGG, "prefillProfile"): "profiles.prefill",
    (_DISAGG, "encodeProfile"): "profiles.encode",
    (_DISAGG, "deciderPluginName"): "deciders.prefill",
    (_DISAGG, "prefillDeciderPluginName"): "deciders.prefill",
    (_DISAGG, "encodeDeciderPluginName"): "deciders.encode",
}
"""Type and dotted parameter that still work -> what to write instead."""

_INDEX: Mapping[str, str] = {
    "tokenProcessorConfig.hashSeed": "blocks are named by what is in them",
    "tokenProcessorConfig.hashAlgorithm": "blocks are named by what is in them",
    "indexerConfig.kvBlockIndexConfig": "the index lives in the router's memory, "
    "bounded by --index-bytes",
    "kvEventsConfig.concurrency": "one thread takes all events in",
    "kvEventsConfig.engineType": "the form of an event tells",
    "kvEventsConfig.podDiscoveryConfig.podLabelSelector": "all endpoints are followed",
    "kvEventsConfig.podDiscoveryConfig.podNamespace": "all endpoints are followed",
}
_HEADERS = "the profile handler sets these headers, and knows its profiles"
_MATCHES = "prefixMatchInfoProducerName says it"
_SWEEP = "a binding ends when its time is over"

NO_EFFECT: Mapping[tuple[str, str], str] = {
    **{(kind, name): why for kind in (_PRECISE, _WRAPPER) for name, why in _INDEX.items()},
    (_WRAPPER, "indexerConfig.tokenizersPoolConfig"): "token-producer says where tokens come from",
    ("active-request-scorer", "requestTimeout"): "a request counts until its stream ends",
    ("dcgm-data-source", "useNodeAddress"): "an endpoint has one address",
    ("disagg-headers-handler", "encodeProfile"): _HEADERS,
    ("disagg-headers-handler", "prefillProfile"): _HEADERS,
    ("inflight-load-producer", "syncCrossReplicaState"): "routers do not tell each other",
    ("no-hit-lru-scorer", "prefixPluginName"): _MATCHES,
    ("no-hit-lru-scorer", "prefixPluginType"): _MATCHES,
    ("pd-profile-handler", "prefixPluginName"): _MATCHES,
    ("pd-profile-handler", "prefixPluginType"): _MATCHES,
    (
        "prefix-cache-affinity-filter",
        "latencyPredictionInfoProducerName",
    ): "latency is not predicted",
    ("prefill-header-handler", "encodeProfile"): _HEADERS,
    ("prefill-header-handler", "prefillProfile"): _HEADERS,
    ("session-affinity-filter", "sessionIdConfig.evictionSweepSeconds"): _SWEEP,
    ("session-affinity-scorer", "sessionIdConfig.evictionSweepSeconds"): _SWEEP,
}
"""Type and dotted parameter that changes nothing -> why."""


def rewritten(file: EndpointPickerConfig) -> tuple[EndpointPickerConfig, tuple[Note, ...]]:
    """The same with today's plugin types, and what was said in older words."""
    told = list(_about_places(file))
    plugins = []
    for i, entry in enumerate(file.plugins):
        plugins.append(_renamed(entry))
        told.extend(_about(entry, plugins[-1], f"$.plugins[{i}]"))
    return msgspec.structs.replace(file, plugins=plugins), tuple(told)


def detector(file: EndpointPickerConfig) -> tuple[Reference, str] | None:
    """The saturation detector that is named, and where."""
    if file.flow_control.saturation_detector is not None:
        return file.flow_control.saturation_detector, "$.flowControl.saturationDetector"
    if file.saturation_detector is not None:
        return file.saturation_detector, "$.saturationDetector"
    return None


def parsers(file: EndpointPickerConfig) -> list[tuple[Reference, str]]:
    """The parsers that are named, and where."""
    named = file.request_handler.parsers
    if not named and file.parser is not None:
        return [(file.parser, "$.parser")]
    return [(entry, f"$.requestHandler.parsers[{i}]") for i, entry in enumerate(named)]


def _about_places(file: EndpointPickerConfig) -> Iterator[Note]:
    if file.api_version == API_VERSIONS[1]:
        yield notes.deprecated(f"{file.api_version} is now {API_VERSIONS[0]}", "$.apiVersion")
    moved = (
        (
            file.saturation_detector,
            file.flow_control.saturation_detector,
            "saturationDetector",
            "flowControl.saturationDetector",
        ),
        (file.parser, file.request_handler.parsers, "parser", "requestHandler.parsers"),
    )
    for before, now, old, new in moved:
        if before is not None:
            yield notes.deprecated(f"{old} is now {new}", f"$.{old}")
        if before is not None and now:
            yield notes.no_effect(f"{old} has no effect beside {new}", f"$.{old}")


def _renamed(entry: PluginEntry) -> PluginEntry:
    """References go on by the name it had."""
    if entry.type not in RENAMED:
        return entry
    kind, translate = RENAMED[entry.type]
    parameters = dict(translate(entry.parameters or {})) or None
    return PluginEntry(type=kind, name=entry.name or entry.type, parameters=parameters)


def _about(before: PluginEntry, now: PluginEntry, path: str) -> Iterator[Note]:
    if before.type != now.type:
        yield notes.deprecated(f"{before.type} is now {now.type}", f"{path}.type")
    if now.type in OUTDATED:
        yield notes.deprecated(f"{now.type}: llm-d has {OUTDATED[now.type]}", f"{path}.type")
    for name in _written(now.parameters or {}):
        where, key = f"{path}.parameters.{name}", (now.type, name)
        if key in OUTDATED_PARAMETERS:
            yield notes.deprecated(f"{name} is now {OUTDATED_PARAMETERS[key]}", where)
        if key in NO_EFFECT:
            yield notes.no_effect(f"{name} has no effect: {NO_EFFECT[key]}", where)


def _written(parameters: Parameters, prefix: str = "") -> Iterator[str]:
    """Dotted names of everything that was written down."""
    for name, value in parameters.items():
        yield f"{prefix}{name}"
        if isinstance(value, Mapping):
            yield from _written(value, f"{prefix}{name}.")
