"""A configuration's text -> built plugins. Corrects nothing silently.

    text ──► data ──► EndpointPickerConfig ──► plugin instances ──► profiles, producers, sources
                                                                    └► checks that bind them

A `user_config.json` of MindIE Motor, told by its content, becomes an EndpointPickerConfig first.
Every mistake is a ConfigError that names its path and line. What is filled in, older, inactive or
useless is a note of the result.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from types import MappingProxyType

import msgspec

from router import catalog
from router.config import (
    admission,
    data_layer,
    decode,
    deprecated,
    filled,
    flow_control,
    handlers,
    motor,
    overruled,
    parsers,
    placeholders,
    plugins,
    producers,
    profiles,
    references,
    useless,
    wrapped,
)
from router.config import text as config_text
from router.config.admission import Admission
from router.config.data_layer import DataLayer
from router.config.errors import ConfigError
from router.config.motor_schema import Motor
from router.config.notes import Note, NoteKind
from router.config.plugins import Plugin
from router.config.schema import EndpointPickerConfig
from router.pool.sources import FileDiscoveryParameters
from router.producers.types import Follower
from router.scheduling.types import Answerer, Profile, ProfileHandler

_ALARMING = (NoteKind.WARNING, NoteKind.INACTIVE)

_PLACE = re.compile(r" - at `(\$[^`]*)`$")


class Config(msgspec.Struct, frozen=True):
    """A configuration, ready to run.

    Attributes:
        profiles: Name -> profile, in the file's order.
        handler: Chooses among them.
        handler_name: Its name.
        admission: Who says no.
        parsers: Who reads requests, in the order they are asked.
        producers: Producers in the order they run.
        notified: Names of producers that follow endpoints as they come and go.
        discovery: Where endpoints come from, if the file says.
        data: What is read of endpoints.
        sources: Each data source and who extracts from it, by name.
        followers: Plugins that are told of every pick, beside producers.
        answerers: Plugins that add to the headers of answers.
        plugins: Every instance of the file, by name.
        notes: What its author should be told.
        motor: What runs beside the router, where the file is MindIE Motor's.
    """

    profiles: Mapping[str, Profile]
    handler: ProfileHandler
    handler_name: str
    admission: Admission
    parsers: tuple[Plugin, ...]
    producers: tuple[Plugin, ...]
    notified: frozenset[str]
    discovery: FileDiscoveryParameters | None
    data: DataLayer
    sources: tuple[tuple[str, tuple[str, ...]], ...]
    followers: tuple[Follower, ...]
    answerers: tuple[Answerer, ...]
    plugins: Mapping[str, Plugin]
    notes: tuple[Note, ...]
    motor: Motor | None = None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What does not have the effect somebody may hope for."""
        return tuple(str(note) for note in self.notes if note.kind in _ALARMING)

    @property
    def picks(self) -> int:
        """How many endpoints a request may be given, the further ones as fallbacks."""
        pickers = (profile.picker for profile in self.profiles.values())
        return max(getattr(picker, "max_num_of_endpoints", 1) for picker in pickers)


def load(text: str, running: Mapping[str, Plugin] = MappingProxyType({})) -> Config:
    """Raises ConfigError.

    `running`: instances of the configuration in force; one that would be built anew the same goes
    on, with what it remembers.
    """
    try:
        data = config_text.parse(text)
        if isinstance(data, dict) and motor.is_motor(data):
            return _of_motor(motor.translate(data), running)
        return _built(decode.decode(data), running)
    except ConfigError as error:
        place = _PLACE.search(str(error))
        line = config_text.line_of(text, place[1]) if place else None
        if line is None:
            raise
        raise ConfigError(f"{error}, line {line}") from error


def _of_motor(translated: motor.Translated, running: Mapping[str, Plugin]) -> Config:
    """Notes are about the file as it stands, not about what it is translated to."""
    built = _built(translated.config, running)
    return msgspec.structs.replace(built, motor=translated.motor, notes=translated.notes)


def _built(written: EndpointPickerConfig, running: Mapping[str, Plugin]) -> Config:
    file, outdated = deprecated.rewritten(written)
    gates = decode.gates(file)
    instances = wrapped.bound(plugins.instances(file.plugins, running))
    built = profiles.build(file, instances)
    handler = handlers.build(instances, built)
    admitted = admission.build(file, instances)
    read = parsers.build(file, instances)
    produced = producers.build(instances, built, handler, admitted.plugins)
    data = data_layer.build(file, instances)
    references.check(instances, built)
    notified = data_layer.notified(file, instances) | wrapped.notified(instances)
    notes = [
        *filled.notes_of(file, instances, produced),
        *outdated,
        *overruled.about(file.plugins, instances, data),
        *decode.about_gates(gates),
        *parsers.check(file, read),
        *flow_control.check(file, instances),
        *placeholders.about(file.plugins),
        *data_layer.useless(file, instances),
        *references.unstated(instances, data),
        *useless.plugins(file, instances),
        *useless.unreferenced(file, instances),
        *useless.unscored(file, instances),
        *useless.producers(produced, notified),
        *useless.deciders(instances, built, produced),
        *useless.unread(instances, built, handler, produced),
        *handlers.warnings(instances, built, handler),
    ]
    return Config(
        profiles=profiles.bound(built, handler),
        handler=handler,
        handler_name=_handler_name(instances),
        admission=admitted,
        parsers=read,
        producers=produced,
        notified=notified,
        discovery=data_layer.discovery(file, instances),
        data=data,
        sources=tuple(data_layer.sources(file, instances)),
        followers=tuple(_followers(instances)),
        answerers=tuple(p.value for p in instances.values() if p.type in catalog.ANSWERERS),
        plugins=instances,
        notes=tuple(notes),
    )


def _handler_name(instances: Mapping[str, Plugin]) -> str:
    declared = (p.name for p in instances.values() if p.type in catalog.HANDLERS)
    return next(declared, filled.HANDLER)


def _followers(instances: Mapping[str, Plugin]) -> Iterator[Follower]:
    for plugin in instances.values():
        if plugin.type not in catalog.PRODUCERS and hasattr(plugin.value, "decided"):
            yield plugin.value
