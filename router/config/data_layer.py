"""The data layer: sources, what reads them, and where endpoints come from."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import TypeVar

import msgspec

from router import catalog
from router.config import filled, notes
from router.config.errors import ConfigError
from router.config.inactive import INACTIVE, Role
from router.config.notes import Note
from router.config.plugins import Plugin, referenced
from router.config.schema import EndpointPickerConfig
from router.pool.core_metrics import CoreMetricsParameters
from router.pool.sources import (
    DcgmSourceParameters,
    FileDiscoveryParameters,
    MetricsSourceParameters,
    ModelsSourceParameters,
)
from router.pool.topology import TopologyLabels

_NOTIFICATION = "endpoint-notification-source"

_PAIRS: Mapping[str, Collection[str]] = {
    "metrics-data-source": ("core-metrics-extractor",),
    "models-data-source": ("models-data-extractor",),
    "dcgm-data-source": ("dcgm-extractor",),
    _NOTIFICATION: (*catalog.PRODUCERS, "precise-prefix-cache-scorer", "topology-extractor"),
}
"""Which plugins can extract from which source."""

_READS_METRICS = frozenset(
    {
        "queue-scorer",
        "running-requests-size-scorer",
        "kv-cache-utilization-scorer",
        "lora-affinity-scorer",
        "load-aware-scorer",
        "utilization-detector",
        "utilization-filter",
        "probabilistic-admitter",
        "kv-cost-scorer",
    }
)
"""Plugins that go by figures of core-metrics-extractor."""

_T = TypeVar("_T")


class DataLayer(msgspec.Struct, frozen=True):
    """What is read of endpoints.

    Attributes:
        metrics: Their metrics pages; None: they are not read.
        core: How those are read.
        models: Their lists of models, which are read in any case.
        gpus: Pages of GPU exporters.
        topologies: Labels that say where endpoints run, by the extractor that states them.
    """

    metrics: MetricsSourceParameters | None
    core: CoreMetricsParameters
    models: ModelsSourceParameters
    gpus: tuple[DcgmSourceParameters, ...]
    topologies: tuple[tuple[str, TopologyLabels], ...]


def build(file: EndpointPickerConfig, plugins: Mapping[str, Plugin]) -> DataLayer:
    """Raises ConfigError."""
    _check(file, plugins)
    sources = [plugins[source.plugin_ref] for source in file.data_layer.sources]
    metrics = _one(sources, MetricsSourceParameters)
    if metrics is None and filled.reads_metrics_by_default(file, plugins):
        metrics = _one(plugins.values(), MetricsSourceParameters) or MetricsSourceParameters()
    extracting = [plugins[ref] for _, refs in named(file) for ref in refs]
    core = _one(extracting, CoreMetricsParameters) or _one(plugins.values(), CoreMetricsParameters)
    return DataLayer(
        metrics=metrics,
        core=core or CoreMetricsParameters(),
        models=_one(sources, ModelsSourceParameters) or ModelsSourceParameters(),
        gpus=tuple(p.value for p in sources if isinstance(p.value, DcgmSourceParameters)),
        topologies=tuple(
            (p.name, p.value) for p in plugins.values() if isinstance(p.value, TopologyLabels)
        ),
    )


def named(file: EndpointPickerConfig) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each source of the file and who extracts from it, by name."""
    for source in file.data_layer.sources:
        yield source.plugin_ref, tuple(entry.plugin_ref for entry in source.extractors)


def sources(
    file: EndpointPickerConfig, plugins: Mapping[str, Plugin]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """The same with what is filled in at the end."""
    yield from named(file)
    if filled.reads_metrics_by_default(file, plugins):
        yield "metrics-data-source", ("core-metrics-extractor",)


def notified(file: EndpointPickerConfig, plugins: Mapping[str, Plugin]) -> frozenset[str]:
    """Names of the plugins that are told of endpoints that come and go."""
    told = (refs for source, refs in named(file) if plugins[source].type == _NOTIFICATION)
    return frozenset(name for refs in told for name in refs)


def discovery(
    file: EndpointPickerConfig, plugins: Mapping[str, Plugin]
) -> FileDiscoveryParameters | None:
    """Where endpoints come from. Raises ConfigError."""
    if file.data_layer.discovery is None:
        return None
    path = "$.dataLayer.discovery"
    plugin = referenced(file.data_layer.discovery.plugin_ref, plugins, path)
    dormant = INACTIVE.get(plugin.type)
    if dormant is not None and dormant.role is Role.DISCOVERY:
        raise ConfigError(f"{plugin.name}: {dormant.refused} - at `{path}.pluginRef`")
    if plugin.type not in catalog.DISCOVERIES:
        raise ConfigError(f"{plugin.name!r} is no discovery - at `{path}.pluginRef`")
    parameters: FileDiscoveryParameters = plugin.value
    return parameters


def useless(file: EndpointPickerConfig, plugins: Mapping[str, Plugin]) -> Iterator[Note]:
    """Sources and extractors that nothing connects."""
    wired = {ref for source, refs in named(file) for ref in (source, *refs)}
    for plugin in plugins.values():
        # Metrics are read and topology is stated without being wired, as in llm-d.
        if plugin.type in ("dcgm-data-source", "dcgm-extractor") and plugin.name not in wired:
            yield notes.warning(f"{plugin.name!r} is in no source: nobody reads it", plugin.path)
    yield from _spare(file, plugins)
    for i, source in enumerate(file.data_layer.sources):
        kind = plugins[source.plugin_ref].type
        if not source.extractors and kind in catalog.SOURCES:
            said = f"nothing extracts from {source.plugin_ref!r}"
            yield notes.warning(said, f"$.dataLayer.sources[{i}]")


def _spare(file: EndpointPickerConfig, plugins: Mapping[str, Plugin]) -> Iterator[Note]:
    """Sources and extractors beside another one of their kind that is used."""
    listed = [name for source, refs in named(file) for name in (source, *refs)]
    for kind in ("metrics-data-source", "core-metrics-extractor"):
        declared = [plugin for plugin in plugins.values() if plugin.type == kind]
        used = [plugins[name] for name in listed if plugins[name].type == kind] or declared
        for plugin in declared:
            if plugin is not used[0]:
                said = f"{plugin.name!r} is not used: {used[0].name!r} is"
                yield notes.warning(said, plugin.path)


def _check(file: EndpointPickerConfig, plugins: Mapping[str, Plugin]) -> None:
    layer = file.data_layer
    kinds: dict[str, str] = {}
    for i, source in enumerate(layer.sources):
        path = f"$.dataLayer.sources[{i}]"
        plugin = referenced(source.plugin_ref, plugins, path)
        _check_source(plugin, kinds, path)
        for k, entry in enumerate(source.extractors):
            where = f"{path}.extractors[{k}]"
            _check_pair(plugin, referenced(entry.plugin_ref, plugins, where), where)
    for ref, path in (
        (layer.peer_discovery and layer.peer_discovery.plugin_ref, "peerDiscovery.pluginRef"),
        (layer.cross_replica_syncer_plugin_ref, "crossReplicaSyncerPluginRef"),
    ):
        if ref:
            raise ConfigError(f"no plugin can do that, nor can {ref!r} - at `$.dataLayer.{path}`")
    if not reads_metrics(file, plugins):
        for plugin in plugins.values():
            if plugin.type in _READS_METRICS:
                raise ConfigError(
                    f"{plugin.name!r} needs metrics, and injectDefaults is false without a"
                    f" metrics-data-source - at `{plugin.path}`"
                )


def reads_metrics(file: EndpointPickerConfig, plugins: Mapping[str, Plugin]) -> bool:
    """Some source reads them."""
    kinds = {plugins[source.plugin_ref].type for source in file.data_layer.sources}
    return file.data_layer.inject_defaults or "metrics-data-source" in kinds


def _check_source(plugin: Plugin, kinds: dict[str, str], path: str) -> None:
    dormant = INACTIVE.get(plugin.type)
    if dormant is not None and dormant.role is Role.SOURCE:
        return
    if plugin.type not in catalog.SOURCES:
        raise ConfigError(f"{plugin.name!r} is no data source - at `{path}.pluginRef`")
    if plugin.type in kinds and plugin.type != "dcgm-data-source":
        first = kinds[plugin.type]
        raise ConfigError(
            f"a second {plugin.type} {plugin.name!r} beside {first!r} - at `{path}.pluginRef`"
        )
    kinds[plugin.type] = plugin.name


def _check_pair(source: Plugin, extractor: Plugin, path: str) -> None:
    if source.type in INACTIVE or extractor.type in INACTIVE:
        return
    if extractor.type not in _PAIRS[source.type]:
        known = ", ".join(_PAIRS[source.type])
        raise ConfigError(
            f"{extractor.name!r} cannot extract from {source.name!r}; what can: {known}"
            f" - at `{path}`"
        )


def _one(plugins: Collection[Plugin] | Iterator[Plugin], kind: type[_T]) -> _T | None:
    """The parameters of the first plugin of a kind."""
    values = (plugin.value for plugin in plugins)
    return next((value for value in values if isinstance(value, kind)), None)
