"""Scheduling profiles: filters, scorers and one picker each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from router import catalog
from router.config.errors import ConfigError
from router.config.plugins import Plugin, needs, referenced
from router.config.schema import EndpointPickerConfig, ProfileEntry
from router.producers.facts import PrefixMatch
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


def bound(profiles: Mapping[str, Profile], handler: ProfileHandler) -> dict[str, Profile]:
    """The profiles, each with the producer whose matches it goes by."""
    return {name: _bound(profile, handler) for name, profile in profiles.items()}


def _bound(profile: Profile, handler: ProfileHandler) -> Profile:
    """Where its own plugins read no match, what its handler reads counts."""
    filters = [member.plugin for member in profile.filters]
    scorers = [member.plugin for member in profile.scorers]
    readers: list[object] = [*filters, *scorers, handler]
    named = (n for reader in readers for f, n in needs(reader) if f is PrefixMatch and n)
    return msgspec.structs.replace(profile, prefix_producer=next(named, ""))


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
