"""Plugin instances: from the `plugins` list to built values, and references to them."""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import msgspec

from router import catalog
from router.config import nearest, nulls
from router.config.errors import ConfigError
from router.config.inactive import INACTIVE
from router.config.schema import PluginEntry

_T = TypeVar("_T")

_PLACES = re.compile(r"(?: - at `(?P<field>[^`$]+)`)?(?: - at `\$(?P<below>[^`]*)`)?$")


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


def instances(entries: Sequence[PluginEntry], running: Mapping[str, Plugin]) -> dict[str, Plugin]:
    """By name, in the order of the file. Those of `running` that are the same go on."""
    plugins: dict[str, Plugin] = {}
    for i, entry in enumerate(entries):
        path = f"$.plugins[{i}]"
        name = entry.name or entry.type
        if name in plugins:
            raise ConfigError(f"plugin name {name!r} stands twice - at `{path}`")
        parameters = _parameters(entry, path)
        before = running.get(name)
        if before is not None and (before.type, before.parameters) == (entry.type, parameters):
            plugins[name] = msgspec.structs.replace(before, path=path)
        else:
            plugins[name] = made(name, entry.type, path, parameters)
    return plugins


def made(name: str, kind: str, path: str, parameters: Any) -> Plugin:
    """An instance. A plugin that remembers is built by its parameters, others are them."""
    build = getattr(parameters, "build", None)
    return Plugin(name, kind, path, build() if build else parameters, parameters)


def _parameters(entry: PluginEntry, path: str) -> object:
    cls = catalog.ALL.get(entry.type) or _inactive(entry.type)
    if cls is None:
        clause = nearest.suggest(entry.type, {*catalog.ALL, *INACTIVE})
        raise ConfigError(f"unknown plugin type {entry.type!r}; {clause} - at `{path}.type`")
    return decoded(entry.parameters or {}, cls, f"{path}.parameters")


@functools.cache
def _inactive(kind: str) -> type[msgspec.Struct] | None:
    """What the parameters of a type that does not run are decoded as."""
    return INACTIVE[kind].cls() if kind in INACTIVE else None


def decoded(data: object, cls: type[_T], path: str) -> _T:
    """Data as a struct. Raises ConfigError that names the place below `path`."""
    try:
        return msgspec.convert(nulls.left_out(data, cls), cls)
    except msgspec.ValidationError as error:
        message = nearest.with_suggestion(str(error), cls)
        raise ConfigError(placed(message, path)) from error


def placed(message: str, path: str) -> str:
    """A message with its one place in the file.

    msgspec counts from its own `$`, or tells none; a check of a struct's own may name a field
    before that.
    """
    told = _PLACES.search(message)
    if told is None:
        return f"{message} - at `{path}`"
    where = path + (told["below"] or "") + (f".{told['field']}" if told["field"] else "")
    return f"{message[: told.start()]} - at `{where}`"


def referenced(ref: str, plugins: Mapping[str, Plugin], path: str) -> Plugin:
    """The instance of that name. Raises ConfigError."""
    if ref not in plugins:
        clause = nearest.suggest(ref, plugins)
        raise ConfigError(f"undefined plugin {ref!r}; {clause} - at `{path}.pluginRef`")
    return plugins[ref]


def needs(plugin: object) -> Sequence[tuple[type, str]]:
    """The facts a plugin goes by, each with the name of its producer where one is named."""
    stated = getattr(plugin, "needs", None)
    return stated() if stated else ()
