"""The words of an EndpointPickerConfig, as typed structs (llm-d, ``llm-d.ai/v1alpha1``)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

API_VERSIONS = ("llm-d.ai/v1alpha1", "inference.networking.x-k8s.io/v1alpha1")
"""The current group and its older name."""

MAX_WEIGHT = 1e9
"""Beyond it totals lose their digits; infinity is no weight."""

Weight = Annotated[float, msgspec.Meta(ge=0, le=MAX_WEIGHT)]


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pass


class PluginEntry(_Strict, frozen=True):
    """One plugin instance; its name is its type unless it says otherwise."""

    type: str
    name: str | None = None
    parameters: dict[str, Any] | None = None


class ProfilePlugin(_Strict, frozen=True):
    """A plugin's place in a profile."""

    plugin_ref: str
    weight: Weight | None = None


class ProfileEntry(_Strict, frozen=True):
    """One scheduling profile."""

    name: str
    plugins: list[ProfilePlugin] = []


class ExtractorEntry(_Strict, frozen=True):
    """A plugin bound to a data source."""

    plugin_ref: str


class SourceEntry(_Strict, frozen=True):
    """A data source and what reads it."""

    plugin_ref: str
    extractors: list[ExtractorEntry] = []


class DiscoveryEntry(_Strict, frozen=True):
    """Where endpoints come from."""

    plugin_ref: str


class DataLayerEntry(_Strict, frozen=True):
    """Sources of what is known of endpoints."""

    inject_defaults: bool = True
    sources: list[SourceEntry] = []
    discovery: DiscoveryEntry | None = None


class EndpointPickerConfig(_Strict, frozen=True):
    """The file."""

    api_version: str
    kind: Literal["EndpointPickerConfig"]
    feature_gates: list[str] = []
    plugins: list[PluginEntry] = []
    scheduling_profiles: list[ProfileEntry] = []
    data_layer: DataLayerEntry = DataLayerEntry()
