"""Scheduling profiles: filters, scorers and one picker each, and the handler that chooses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from router import catalog
from router.config.errors import ConfigError
from router.config.plugins import Plugin, referenced
from router.config.schema import EndpointPickerConfig, ProfileEntry
from router.scheduling.types import NamedFilter, NamedScorer, Picker, Profile, ProfileHandler


def build(file: EndpointPickerConfig, plugins: Mapping[str, Plugin]) -> dict[str, Profile]:
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


def handler(plugins: Mapping[str, Plugin], profiles: Mapping[str, Profile]) -> ProfileHandler:
    declared = [p for p in plugins.values() if p.type in catalog.HANDLERS]
    if len(declared) > 1:
        raise ConfigError(
            f"a second profile handler {declared[1].name!r} - at `{declared[1].path}`"
        )
    if len(profiles) > 1:
        where = declared[0].path if declared else "$.schedulingProfiles"
        raise ConfigError(
            f"single-profile-handler takes one profile, there are {len(profiles)} - at `{where}`"
        )
    if declared:
        handler: ProfileHandler = declared[0].value
        return handler
    return catalog.HANDLERS["single-profile-handler"]()


def _members(
    entry: ProfileEntry, path: str, plugins: Mapping[str, Plugin]
) -> Iterator[tuple[Plugin, float, str]]:
    for i, member in enumerate(entry.plugins):
        where = f"{path}.plugins[{i}]"
        plugin = referenced(member.plugin_ref, plugins, where)
        yield plugin, 1.0 if member.weight is None else member.weight, where


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
        if plugin.type in catalog.SCORERS:
            scorers.append(NamedScorer(plugin.name, plugin.value, weight))
        if plugin.type in catalog.PICKERS:
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
