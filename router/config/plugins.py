"""Plugin instances: from the `plugins` list to built values, and references to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from router import catalog
from router.config.errors import ConfigError
from router.config.schema import PluginEntry


class Plugin(msgspec.Struct, frozen=True):
    """One plugin instance of the file.

    Attributes:
        path: Where it stands in the file.
        value: The plugin, or its parameters where it needs IO to run.
        parameters: What it was built from, with everything that was left out filled in.
    """

    name: str
    type: str
    path: str
    value: Any
    parameters: Any


def instances(entries: Sequence[PluginEntry]) -> dict[str, Plugin]:
    plugins: dict[str, Plugin] = {}
    for i, entry in enumerate(entries):
        path = f"$.plugins[{i}]"
        name = entry.name or entry.type
        if name in plugins:
            raise ConfigError(f"plugin name {name!r} stands twice - at `{path}`")
        parameters = _parameters(entry, path)
        plugins[name] = made(name, entry.type, path, parameters)
    return plugins


def made(name: str, kind: str, path: str, parameters: Any) -> Plugin:
    """An instance. A plugin that remembers is built by its parameters, others are them."""
    build = getattr(parameters, "build", None)
    return Plugin(name, kind, path, build() if build else parameters, parameters)


def _parameters(entry: PluginEntry, path: str) -> object:
    cls = catalog.ALL.get(entry.type)
    if cls is None:
        known = ", ".join(sorted(catalog.ALL))
        raise ConfigError(f"unknown plugin type {entry.type!r}; known: {known} - at `{path}.type`")
    try:
        return msgspec.convert(entry.parameters or {}, cls)
    except msgspec.ValidationError as error:
        raise ConfigError(placed(str(error), f"{path}.parameters")) from error


def placed(message: str, path: str) -> str:
    """A message of msgspec with the place it lacks, or counts from its own `$`, put right."""
    if " - at `$" in message:
        return message.replace(" - at `$", f" - at `{path}", 1)
    return f"{message} - at `{path}`"


def referenced(ref: str, plugins: Mapping[str, Plugin], path: str) -> Plugin:
    if ref not in plugins:
        known = ", ".join(plugins) or "none"
        raise ConfigError(f"undefined plugin {ref!r}; defined: {known} - at `{path}.pluginRef`")
    return plugins[ref]
