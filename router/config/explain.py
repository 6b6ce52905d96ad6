"""A loaded configuration in plain lines, for a person: what runs, in which order, with what."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from router import catalog
from router.config.inactive import INACTIVE
from router.config.load import Config
from router.config.motor_schema import Motor
from router.config.notes import Note, NoteKind
from router.config.plugins import Plugin
from router.scheduling.types import Profile

_HEADINGS: Mapping[NoteKind, str] = {
    NoteKind.FILLED_IN: "Filled in",
    NoteKind.DEPRECATED: "Deprecated",
    NoteKind.NO_EFFECT: "Without effect",
    NoteKind.INACTIVE: "Inactive",
    NoteKind.WARNING: "Warnings",
}

_ROLES: Sequence[tuple[Mapping[str, type], str]] = (
    (catalog.PARSERS, "parser"),
    (catalog.ADMITTERS, "admitter"),
    (catalog.DETECTORS, "saturation detector"),
    (catalog.HANDLERS, "profile handler"),
    (catalog.DECIDERS, "decider"),
    (catalog.BUILT_IN, "built in"),
    (catalog.FILTERS, "filter"),
    (catalog.SCORERS, "scorer"),
    (catalog.PICKERS, "picker"),
    (catalog.ANSWERERS, "answer"),
    (catalog.PRODUCERS, "producer"),
    (catalog.SOURCES, "data source"),
    (catalog.EXTRACTORS, "extractor"),
    (catalog.DISCOVERIES, "discovery"),
)


def explain(config: Config) -> Iterator[str]:
    """Everything but the notes."""
    yield "The way of a request"
    yield from _way(config)
    yield ""
    yield "What is known of endpoints"
    yield from _sources(config)
    if config.motor is not None:
        yield ""
        yield "Beside the router"
        yield from _motor(config.motor)
    yield ""
    yield "Plugins, with the parameters they run with (* the default)"
    made = (*config.producers, config.admission.detector)
    everything = {**config.plugins, **{p.name: p for p in made}}
    for plugin in everything.values():
        yield from _plugin(plugin)


def explain_notes(notes: Sequence[Note], lines: Mapping[str, int | None]) -> Iterator[str]:
    """The notes by kind; `lines` says where a path stands."""
    for kind, heading in _HEADINGS.items():
        chosen = [note for note in notes if note.kind is kind]
        if not chosen:
            continue
        yield ""
        yield heading
        for note in chosen:
            line = lines.get(note.path)
            where = f"{note.path}, line {line}" if line is not None else note.path
            yield f"  {where}: {note.text}"


def _motor(motor: Motor) -> Iterator[str]:
    yield _stage("conductor", [f"port {motor.port}", f"blocks of {motor.block_size} tokens"])
    media = motor.media
    if media.pool is not None:
        yield _stage("pool", [media.backend, media.pool])
    for name, port in (("cpu", media.cpu), ("disk", media.disk)):
        if port is not None:
            yield _stage(name, [f"events at tcp://*:{port} + rank"])
    if motor.look_again_s:
        yield _stage("streams", [f"looked for again every {motor.look_again_s} s"])


def _way(config: Config) -> Iterator[str]:
    yield _stage("parse", [p.name for p in config.parsers])
    yield _stage("produce", [p.name for p in config.producers])
    shedding = f"{config.admission.detector.name} (priorities below 0)"
    yield _stage("admit", [shedding, *(p.name for p in config.admission.others)])
    yield _stage("schedule", [config.handler_name])
    for profile in config.profiles.values():
        yield f"    profile {profile.name}"
        yield from (f"      {line}" for line in _profile(profile, config))


def _profile(profile: Profile, config: Config) -> Iterator[str]:
    if profile.filters:
        yield f"filter  {', '.join(member.name for member in profile.filters)}"
    if profile.scorers:
        yield f"score   {' + '.join(f'{m.weight:g} x {m.name}' for m in profile.scorers)}"
    else:
        yield "score   nothing: every endpoint is as good as another"
    yield f"pick    {_picker_name(profile, config)}"


def _picker_name(profile: Profile, config: Config) -> str:
    named = (p.name for p in config.plugins.values() if p.value is profile.picker)
    return next(named, "max-score-picker")


def _sources(config: Config) -> Iterator[str]:
    if config.discovery is None:
        yield _stage("discovery", ["none here: serve needs --endpoints FILE"])
    else:
        yield _stage("discovery", [config.discovery.path])
    for source, extractors in config.sources:
        yield _stage("source", [f"{source} -> {', '.join(extractors) or 'nothing'}"])


def _stage(name: str, members: Sequence[str]) -> str:
    return f"  {name:<10}{', '.join(members) or 'nothing'}"


def _plugin(plugin: Plugin) -> Iterator[str]:
    article = "an" if plugin.type[0] in "aeiou" else "a"
    other = f"{plugin.name}, {article} {plugin.type}"
    title = plugin.name if plugin.name == plugin.type else other
    yield f"  {title} ({_role(plugin.type)})"
    yield from (f"    {line}" for line in _parameters(plugin.parameters))


def _role(kind: str) -> str:
    if kind in INACTIVE:
        return f"{INACTIVE[kind].role}, inactive"
    return ", ".join(role for table, role in _ROLES if kind in table)


def _parameters(given: msgspec.Struct, prefix: str = "") -> Iterator[str]:
    """One line for each, nested ones by their dotted name; and what it comes to where another
    value stands for it."""
    in_force: Mapping[str, object] = given.in_force() if hasattr(given, "in_force") else {}
    for field in msgspec.structs.fields(given):
        value, name = getattr(given, field.name), prefix + field.encode_name
        if value is msgspec.UNSET:
            continue
        if isinstance(value, msgspec.Struct):
            yield from _parameters(value, f"{name}.")
            continue
        mark = "*" if value == _default(field) else " "
        line = f"{mark} {name}: {_json(value)}"
        comes_to = in_force.get(field.encode_name, value)
        yield line if comes_to == value else f"{line}, runs with {_json(comes_to)}"


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()


def _default(field: msgspec.structs.FieldInfo) -> object:
    if field.default_factory is not msgspec.NODEFAULT:
        made: object = field.default_factory()
        return made
    return field.default
