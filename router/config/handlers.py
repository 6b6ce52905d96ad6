"""The profile handler, with the profiles and deciders that it names."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from router import catalog
from router.config import nearest, notes
from router.config.errors import ConfigError
from router.config.notes import Note
from router.config.plugins import Plugin
from router.scheduling.profiles.single import SingleProfileHandler
from router.scheduling.types import Decider, Profile, ProfileHandler


def declared(plugins: Mapping[str, Plugin]) -> Plugin | None:
    """The one handler of the file. Raises ConfigError where there are more."""
    found = [p for p in plugins.values() if p.type in catalog.HANDLERS]
    if len(found) > 1:
        raise ConfigError(f"a second profile handler {found[1].name!r} - at `{found[1].path}`")
    return found[0] if found else None


def build(plugins: Mapping[str, Plugin], profiles: Mapping[str, Profile]) -> ProfileHandler:
    """The handler, ready to decide. Raises ConfigError."""
    plugin = declared(plugins)
    if plugin is not None and hasattr(plugin.value, "link"):
        path = f"{plugin.path}.parameters"
        for field, name in plugin.value.profile_names(profiles).items():
            if name not in profiles:
                clause = nearest.suggest(name, profiles)
                raise ConfigError(f"no profile {name!r}; {clause} - at `{path}.{field}`")
        linked: ProfileHandler = plugin.value.link(_deciders(plugin, plugins))
        return linked
    if len(profiles) > 1:
        where = "$.schedulingProfiles" if plugin is None else plugin.path
        name = "single-profile-handler" if plugin is None else plugin.type
        raise ConfigError(f"{name} takes one profile, there are {len(profiles)} - at `{where}`")
    handler: ProfileHandler = SingleProfileHandler() if plugin is None else plugin.value
    return handler


def warnings(
    plugins: Mapping[str, Plugin], profiles: Mapping[str, Profile], handler: ProfileHandler
) -> Iterator[Note]:
    """What the handler never asks or runs."""
    plugin = declared(plugins)
    asked = {} if plugin is None else _decider_names(plugin)
    for decider in plugins.values():
        if decider.type in catalog.DECIDERS and decider.name not in asked.values():
            said = f"{decider.name!r} is asked by no profile handler"
            yield notes.warning(said, decider.path)
    if plugin is None or not hasattr(handler, "runs"):
        return
    runs = handler.runs()
    for name in profiles:
        if name not in runs:
            said = f"profile {name!r} never runs: {plugin.name!r} has no decider for it"
            yield notes.warning(said, plugin.path)
    for name in runs:
        if name not in profiles:
            said = f"{plugin.name!r} would run a profile {name!r}, which is not there"
            yield notes.warning(said, plugin.path)


def _deciders(plugin: Plugin, plugins: Mapping[str, Plugin]) -> dict[str, Decider]:
    found: dict[str, Decider] = {}
    for field, name in _decider_names(plugin).items():
        decider = plugins.get(name)
        if decider is None or decider.type not in catalog.DECIDERS:
            declared_ones = (p.name for p in plugins.values() if p.type in catalog.DECIDERS)
            clause = nearest.suggest(name, declared_ones)
            where = f"{plugin.path}.parameters.{field}"
            raise ConfigError(f"no decider {name!r}; {clause} - at `{where}`")
        found[field] = decider.value
    return found


def _decider_names(plugin: Plugin) -> Mapping[str, str]:
    names: Mapping[str, str] = plugin.value.decider_names() if hasattr(plugin.value, "link") else {}
    return names
