"""Who reads requests: the parsers of the file in its order, or all there are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from router import catalog
from router.config import deprecated, nearest, notes
from router.config.errors import ConfigError
from router.config.inactive import INACTIVE, Role
from router.config.notes import Note
from router.config.plugins import Plugin, made
from router.config.schema import EndpointPickerConfig


def build(file: EndpointPickerConfig, plugins: Mapping[str, Plugin]) -> tuple[Plugin, ...]:
    """Those that run, in the order they are asked. Raises ConfigError."""
    named = deprecated.parsers(file)
    if not named:
        return tuple(made(kind, kind, "$", cls()) for kind, cls in catalog.PARSERS.items())
    chosen = [_parser(ref.plugin_ref, path, plugins) for ref, path in named]
    running = tuple(parser for parser in chosen if parser.type in catalog.PARSERS)
    if not running:
        why = INACTIVE[chosen[0].type].refused
        raise ConfigError(f"{chosen[0].name}: {why} - at `{named[0][1]}`")
    return running


def check(file: EndpointPickerConfig, running: Sequence[Plugin]) -> Iterator[Note]:
    """Parsers that are never asked, and what happens to requests that none of them reads."""
    named = deprecated.parsers(file)
    if not named:
        listed = ", ".join(parser.name for parser in running)
        yield notes.filled_in(f"{listed}: no parser is listed", "$.requestHandler.parsers")
        return
    names = [ref.plugin_ref for ref, _ in named]
    for ref, path in named:
        if ref.plugin_ref in INACTIVE:
            said = f"{ref.plugin_ref} does not run: {INACTIVE[ref.plugin_ref].why}"
            yield notes.inactive(said, path)
    last = next((p.name for p in running if not p.value.claims), None)
    if last is None:
        said = "without passthrough-parser a request that none of these reads is refused (400)"
        yield notes.warning(said, named[-1][1])
        return
    for ref, path in named[names.index(last) + 1 :]:
        said = f"{ref.plugin_ref!r} is never asked: {last!r} before it takes every request"
        yield notes.warning(said, path)


def _parser(ref: str, path: str, plugins: Mapping[str, Plugin]) -> Plugin:
    """The declared instance, or one of the type of that name."""
    plugin = plugins.get(ref)
    kind = plugin.type if plugin else ref
    dormant = kind in INACTIVE and INACTIVE[kind].role is Role.PARSER
    if not dormant and kind not in catalog.PARSERS:
        known = {p.name for p in plugins.values() if p.type in catalog.PARSERS}
        clause = nearest.suggest(ref, known | set(catalog.PARSERS))
        raise ConfigError(f"{ref!r} is no parser; {clause} - at `{path}.pluginRef`")
    if plugin is not None:
        return plugin
    parameters = INACTIVE[kind].cls()() if dormant else catalog.PARSERS[kind]()
    return made(kind, kind, path, parameters)
