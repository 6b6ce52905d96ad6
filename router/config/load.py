"""An EndpointPickerConfig's text -> built plugins. Reads nothing else and corrects nothing silently.

    text ──► data ──► EndpointPickerConfig ──► plugin instances ──► profiles, producers, sources
                                                                    └► checks that bind them

Every mistake is a ConfigError that names its path. What is merely useless (an unused plugin, a producer
that nothing feeds) is a warning of the result.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from router import catalog
from router.config import text as config_text
from router.config.errors import ConfigError
from router.config.schema import (
    API_VERSIONS,
    EndpointPickerConfig,
    PluginEntry,
    ProfileEntry,
)
from router.pool.sources import FileDiscoveryParameters, MetricsSourceParameters
from router.producers.facts import InFlight, PrefixMatch, Tokens
from router.producers.prefix import PrecisePrefixParameters
from router.scheduling.types import NamedFilter, NamedScorer, Picker, Profile, ProfileHandler

_AUTOMATIC: Mapping[type, str] = {
    Tokens: "token-producer",
    InFlight: "inflight-load-producer",
}
"""Producers made where a fact is needed and nobody states it. Prefix matches are not among them: a
router that guesses where its matches should come from hides a mistake."""


class Plugin(msgspec.Struct, frozen=True):
    """One plugin instance of the file.

    Attributes:
        path: Where it stands in the file.
        value: The plugin, or its parameters where it needs IO to run.
    """

    name: str
    type: str
    path: str
    value: Any


class Config(msgspec.Struct, frozen=True):
    """A configuration, ready to run.

    Attributes:
        profiles: Name -> profile, in the file's order.
        handler: Chooses among them.
        producers: Producers in the order they run.
        notified: Names of producers that follow endpoints as they come and go.
        discovery: Where endpoints come from, if the file says.
        metrics: How metrics are read.
        warnings: What cannot have the effect somebody hoped for.
    """

    profiles: Mapping[str, Profile]
    handler: ProfileHandler
    producers: tuple[Plugin, ...]
    notified: frozenset[str]
    discovery: FileDiscoveryParameters | None
    metrics: MetricsSourceParameters
    warnings: tuple[str, ...]


def load(text: str) -> Config:
    """Raises ConfigError."""
    file = _decode(text)
    plugins = _instances(file.plugins)
    profiles = _profiles(file, plugins)
    handler = _handler(plugins, profiles)
    producers = _producers(plugins, profiles)
    notified = _notified(file, plugins)
    return Config(
        profiles=profiles,
        handler=handler,
        producers=producers,
        notified=notified,
        discovery=_discovery(file, plugins),
        metrics=_metrics(file, plugins),
        warnings=tuple(_warnings(file, plugins, producers, notified)),
    )


def _decode(text: str) -> EndpointPickerConfig:
    data = config_text.parse(text)
    try:
        file = msgspec.convert(data, EndpointPickerConfig)
    except msgspec.ValidationError as error:
        raise ConfigError(str(error)) from error
    if file.api_version not in API_VERSIONS:
        known = ", ".join(API_VERSIONS)
        raise ConfigError(f"unknown version {file.api_version!r}; known: {known} - at `$.apiVersion`")
    return file


def _instances(entries: Sequence[PluginEntry]) -> dict[str, Plugin]:
    plugins: dict[str, Plugin] = {}
    for i, entry in enumerate(entries):
        path = f"$.plugins[{i}]"
        name = entry.name or entry.type
        if name in plugins:
            raise ConfigError(f"plugin name {name!r} stands twice - at `{path}`")
        plugins[name] = Plugin(name, entry.type, path, _instance(entry, path))
    return plugins


def _instance(entry: PluginEntry, path: str) -> object:
    cls = catalog.ALL.get(entry.type)
    if cls is None:
        known = ", ".join(sorted(catalog.ALL))
        raise ConfigError(f"unknown plugin type {entry.type!r}; known: {known} - at `{path}.type`")
    try:
        return msgspec.convert(entry.parameters or {}, cls)
    except msgspec.ValidationError as error:
        raise ConfigError(_relocated(str(error), f"{path}.parameters")) from error


def _relocated(message: str, path: str) -> str:
    """msgspec names places from `$`; here `$` is the plugin's parameters."""
    if " - at `$" in message:
        return message.replace(" - at `$", f" - at `{path}", 1)
    return f"{message} - at `{path}`"


def _profiles(file: EndpointPickerConfig, plugins: Mapping[str, Plugin]) -> dict[str, Profile]:
    if not file.scheduling_profiles:
        everything = [(p, 1.0, p.path) for p in plugins.values()]
        return {"default": _profile("default", "$.plugins", everything, plugins)}
    profiles: dict[str, Profile] = {}
    for i, entry in enumerate(file.scheduling_profiles):
        path = f"$.schedulingProfiles[{i}]"
        if entry.name in profiles:
            raise ConfigError(f"profile {entry.name!r} stands twice - at `{path}.name`")
        members = list(_members(entry, path, plugins))
        profiles[entry.name] = _profile(entry.name, path, members, plugins)
    return profiles


def _members(
    entry: ProfileEntry, path: str, plugins: Mapping[str, Plugin]
) -> Iterator[tuple[Plugin, float, str]]:
    for i, member in enumerate(entry.plugins):
        where = f"{path}.plugins[{i}]"
        plugin = _referenced(member.plugin_ref, plugins, where)
        yield plugin, 1.0 if member.weight is None else member.weight, where


def _referenced(ref: str, plugins: Mapping[str, Plugin], path: str) -> Plugin:
    if ref not in plugins:
        known = ", ".join(plugins) or "none"
        raise ConfigError(f"undefined plugin {ref!r}; defined: {known} - at `{path}.pluginRef`")
    return plugins[ref]


def _profile(
    name: str,
    path: str,
    members: Sequence[tuple[Plugin, float, str]],
    plugins: Mapping[str, Plugin],
) -> Profile:
    filters, scorers, pickers = [], [], []
    for plugin, weight, where in members:
        if plugin.type in catalog.FILTERS:
            filters.append(NamedFilter(plugin.name, plugin.value))
        elif plugin.type in catalog.SCORERS:
            scorers.append(NamedScorer(plugin.name, plugin.value, weight))
        elif plugin.type in catalog.PICKERS:
            pickers.append((plugin, where))
    if len(pickers) > 1:
        second, where = pickers[1]
        raise ConfigError(
            f"profile {name!r} has a second picker {second.name!r} after "
            f"{pickers[0][0].name!r} - at `{where}`"
        )
    picker = pickers[0][0].value if pickers else _only_picker(name, path, plugins)
    return Profile(name, tuple(filters), tuple(scorers), picker)


def _only_picker(profile: str, path: str, plugins: Mapping[str, Plugin]) -> Picker:
    declared = [p for p in plugins.values() if p.type in catalog.PICKERS]
    if len(declared) > 1:
        names = ", ".join(p.name for p in declared)
        raise ConfigError(f"profile {profile!r} must name one of the pickers {names} - at `{path}`")
    picker: Picker = declared[0].value if declared else catalog.PICKERS["max-score-picker"]()
    return picker


def _handler(plugins: Mapping[str, Plugin], profiles: Mapping[str, Profile]) -> ProfileHandler:
    declared = [p for p in plugins.values() if p.type in catalog.HANDLERS]
    if len(declared) > 1:
        raise ConfigError(f"a second profile handler {declared[1].name!r} - at `{declared[1].path}`")
    if len(profiles) > 1:
        where = declared[0].path if declared else "$.schedulingProfiles"
        raise ConfigError(
            f"single-profile-handler takes one profile, there are {len(profiles)} - at `{where}`"
        )
    if declared:
        handler: ProfileHandler = declared[0].value
        return handler
    return catalog.HANDLERS["single-profile-handler"]()


def _producers(
    plugins: Mapping[str, Plugin], profiles: Mapping[str, Profile]
) -> tuple[Plugin, ...]:
    """Those declared and those made for a need, in the order they run."""
    declared = {p.name: p for p in plugins.values() if p.type in catalog.PRODUCERS}
    paths = {id(p.value): p.path for p in plugins.values()}
    for profile in profiles.values():
        for scorer in profile.scorers:
            for fact, name in _needs(scorer.plugin):
                _bind(fact, name, declared, paths.get(id(scorer.plugin), f"${profile.name}"))
    if any(catalog.PROVIDES[p.type] is PrefixMatch for p in declared.values()):
        _bind(Tokens, "", declared, "$.plugins")
    order = list(catalog.PRODUCERS)
    return tuple(sorted(declared.values(), key=lambda p: order.index(p.type)))


def _needs(plugin: object) -> Sequence[tuple[type, str]]:
    needs = getattr(plugin, "needs", None)
    return needs() if needs else ()


def _bind(fact: type, name: str, declared: dict[str, Plugin], path: str) -> None:
    """Make sure somebody states `fact`. Raises ConfigError."""
    providers = [p.name for p in declared.values() if catalog.PROVIDES[p.type] is fact]
    if name and name not in providers:
        known = ", ".join(providers) or "none"
        raise ConfigError(
            f"no producer {name!r} states {fact.__name__}; declared: {known} - at `{path}.parameters`"
        )
    if len(providers) > 1 and not name:
        raise ConfigError(
            f"several producers state {fact.__name__} ({', '.join(providers)}): name one - at `{path}`"
        )
    if providers:
        return
    automatic = _AUTOMATIC.get(fact)
    if automatic is None:
        makers = ", ".join(t for t, provided in catalog.PROVIDES.items() if provided is fact)
        raise ConfigError(f"no producer states {fact.__name__}: declare {makers} - at `{path}`")
    value = catalog.PRODUCERS[automatic]()
    declared[automatic] = Plugin(automatic, automatic, "$.plugins", value)


def _notified(file: EndpointPickerConfig, plugins: Mapping[str, Plugin]) -> frozenset[str]:
    notified = set()
    for i, source in enumerate(file.data_layer.sources):
        path = f"$.dataLayer.sources[{i}]"
        plugin = _referenced(source.plugin_ref, plugins, path)
        if plugin.type not in catalog.SOURCES:
            raise ConfigError(f"{plugin.name!r} is no data source - at `{path}.pluginRef`")
        for k, entry in enumerate(source.extractors):
            where = f"{path}.extractors[{k}]"
            extractor = _referenced(entry.plugin_ref, plugins, where)
            _check_pair(plugin, extractor, where)
            if plugin.type == "endpoint-notification-source":
                notified.add(extractor.name)
    return frozenset(notified)


_PAIRS: Mapping[str, Sequence[str]] = {
    "metrics-data-source": ("core-metrics-extractor",),
    "endpoint-notification-source": ("precise-prefix-cache-producer", "inflight-load-producer"),
}
"""Which plugins can extract from which source."""


def _check_pair(source: Plugin, extractor: Plugin, path: str) -> None:
    if extractor.type not in _PAIRS[source.type]:
        known = ", ".join(_PAIRS[source.type])
        raise ConfigError(
            f"{extractor.name!r} cannot extract from {source.name!r}; what can: {known} - at `{path}`"
        )


def _discovery(
    file: EndpointPickerConfig, plugins: Mapping[str, Plugin]
) -> FileDiscoveryParameters | None:
    if file.data_layer.discovery is None:
        return None
    path = "$.dataLayer.discovery"
    plugin = _referenced(file.data_layer.discovery.plugin_ref, plugins, path)
    if plugin.type not in catalog.DISCOVERIES:
        raise ConfigError(f"{plugin.name!r} is no discovery - at `{path}.pluginRef`")
    parameters: FileDiscoveryParameters = plugin.value
    return parameters


def _metrics(
    file: EndpointPickerConfig, plugins: Mapping[str, Plugin]
) -> MetricsSourceParameters:
    for source in file.data_layer.sources:
        plugin = plugins[source.plugin_ref]
        if isinstance(plugin.value, MetricsSourceParameters):
            return plugin.value
    return MetricsSourceParameters()


def _warnings(
    file: EndpointPickerConfig,
    plugins: Mapping[str, Plugin],
    producers: Sequence[Plugin],
    notified: frozenset[str],
) -> Iterator[str]:
    used = {ref for profile in file.scheduling_profiles for ref in _refs(profile)}
    rated = {**catalog.FILTERS, **catalog.SCORERS, **catalog.PICKERS}
    for plugin in plugins.values():
        if file.scheduling_profiles and plugin.type in rated and plugin.name not in used:
            yield f"{plugin.name!r} is in no profile and has no effect - at `{plugin.path}`"
    for producer in producers:
        if not isinstance(producer.value, PrecisePrefixParameters):
            continue
        if producer.name not in notified:
            yield (
                f"{producer.name!r} hears only engines whose endpoint names its kvEvents: no "
                f"endpoint-notification-source feeds it - at `{producer.path}`"
            )
    for gate in file.feature_gates:
        yield f"feature gate {gate!r} has no effect - at `$.featureGates`"


def _refs(profile: ProfileEntry) -> Iterator[str]:
    return (member.plugin_ref for member in profile.plugins)
