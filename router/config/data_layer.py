"""The data layer: sources, what reads them, and where endpoints come from."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from router import catalog
from router.config import filled
from router.config.errors import ConfigError
from router.config.plugins import Plugin, referenced
from router.config.schema import EndpointPickerConfig
from router.pool.sources import FileDiscoveryParameters, MetricsSourceParameters

_PAIRS: Mapping[str, Sequence[str]] = {
    "metrics-data-source": ("core-metrics-extractor",),
    "endpoint-notification-source": (
        "precise-prefix-cache-producer",
        "precise-prefix-cache-scorer",
        "inflight-load-producer",
        "mm-embeddings-cache-producer",
    ),
}
"""Which plugins can extract from which source."""


def notified(file: EndpointPickerConfig, plugins: Mapping[str, Plugin]) -> frozenset[str]:
    names = set()
    for i, source in enumerate(file.data_layer.sources):
        path = f"$.dataLayer.sources[{i}]"
        plugin = referenced(source.plugin_ref, plugins, path)
        if plugin.type not in catalog.SOURCES:
            raise ConfigError(f"{plugin.name!r} is no data source - at `{path}.pluginRef`")
        for k, entry in enumerate(source.extractors):
            where = f"{path}.extractors[{k}]"
            extractor = referenced(entry.plugin_ref, plugins, where)
            _check_pair(plugin, extractor, where)
            if plugin.type == "endpoint-notification-source":
                names.add(extractor.name)
    return frozenset(names)


def _check_pair(source: Plugin, extractor: Plugin, path: str) -> None:
    if extractor.type not in _PAIRS[source.type]:
        known = ", ".join(_PAIRS[source.type])
        raise ConfigError(
            f"{extractor.name!r} cannot extract from {source.name!r}; what can: {known}"
            f" - at `{path}`"
        )


def discovery(
    file: EndpointPickerConfig, plugins: Mapping[str, Plugin]
) -> FileDiscoveryParameters | None:
    if file.data_layer.discovery is None:
        return None
    path = "$.dataLayer.discovery"
    plugin = referenced(file.data_layer.discovery.plugin_ref, plugins, path)
    if plugin.type not in catalog.DISCOVERIES:
        raise ConfigError(f"{plugin.name!r} is no discovery - at `{path}.pluginRef`")
    parameters: FileDiscoveryParameters = plugin.value
    return parameters


def metrics(file: EndpointPickerConfig, plugins: Mapping[str, Plugin]) -> MetricsSourceParameters:
    for source in file.data_layer.sources:
        plugin = plugins[source.plugin_ref]
        if isinstance(plugin.value, MetricsSourceParameters):
            return plugin.value
    return MetricsSourceParameters()


def sources(
    file: EndpointPickerConfig, plugins: Mapping[str, Plugin]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each source and who extracts from it, by name; those filled in come last."""
    for source in file.data_layer.sources:
        yield source.plugin_ref, tuple(e.plugin_ref for e in source.extractors)
    if filled.reads_metrics_by_default(file, plugins):
        yield "metrics-data-source", ("core-metrics-extractor",)
