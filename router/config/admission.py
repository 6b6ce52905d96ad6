"""Who says no: the saturation detector, and the admitters of the file in its order."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from router import catalog
from router.admission.gate import Gate
from router.config import deprecated, nearest
from router.config.errors import ConfigError
from router.config.plugins import Plugin, made
from router.config.schema import EndpointPickerConfig
from router.scheduling.types import Admitter

DETECTOR = "utilization-detector"
"""What counts where none is named, as in llm-d."""


class Admission(msgspec.Struct, frozen=True):
    """Who says no.

    Attributes:
        detector: Says how full the pool is; requests of a negative priority need room in it.
        others: Plugins that have a say of their own.
    """

    detector: Plugin
    others: tuple[Plugin, ...]

    @property
    def plugins(self) -> tuple[Plugin, ...]:
        """The detector, then the others."""
        return (self.detector, *self.others)

    @property
    def admitters(self) -> tuple[Admitter, ...]:
        """In the order they are asked."""
        return (Gate(self.detector.value), *(plugin.value for plugin in self.others))


def build(file: EndpointPickerConfig, plugins: Mapping[str, Plugin]) -> Admission:
    """Raises ConfigError."""
    others = (plugin for plugin in plugins.values() if plugin.type in catalog.ADMITTERS)
    return Admission(_detector(file, plugins), tuple(others))


def _detector(file: EndpointPickerConfig, plugins: Mapping[str, Plugin]) -> Plugin:
    named = deprecated.detector(file)
    ref, path = (named[0].plugin_ref, named[1]) if named else (DETECTOR, "$.flowControl")
    plugin = plugins.get(ref)
    if plugin is None and ref in catalog.DETECTORS:
        return made(ref, ref, path, catalog.DETECTORS[ref]())
    if plugin is None or plugin.type not in catalog.DETECTORS:
        known = {p.name for p in plugins.values() if p.type in catalog.DETECTORS}
        clause = nearest.suggest(ref, known | set(catalog.DETECTORS))
        raise ConfigError(f"{ref!r} is no saturation detector; {clause} - at `{path}.pluginRef`")
    return plugin
