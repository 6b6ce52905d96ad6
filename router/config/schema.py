"""The words of an EndpointPickerConfig, as typed structs (llm-d, ``llm-d.ai/v1alpha1``)."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import msgspec

from router.config.duration import seconds
from router.config.quantity import quantity

API_VERSIONS = ("llm-d.ai/v1alpha1", "inference.networking.x-k8s.io/v1alpha1")
"""The current group and its older name."""

MAX_WEIGHT = 1e9
"""Beyond it totals lose their digits; infinity is no weight."""

Weight = Annotated[float, msgspec.Meta(ge=0, le=MAX_WEIGHT)]
Name = Annotated[str, msgspec.Meta(min_length=1)]
Amount = int | float | str
"""A Kubernetes quantity."""


class _Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    pass


class PluginEntry(_Strict, frozen=True):
    """One plugin instance; its name is its type unless it says otherwise."""

    type: Name
    name: str | None = None
    parameters: dict[str, Any] | None = None


class Reference(_Strict, frozen=True):
    """A plugin, by its name."""

    plugin_ref: Name


class ProfilePlugin(_Strict, frozen=True):
    """A plugin's place in a profile."""

    plugin_ref: Name
    weight: Weight | None = None


class ProfileEntry(_Strict, frozen=True):
    """One scheduling profile."""

    name: Name
    plugins: list[ProfilePlugin] = []


class SourceEntry(_Strict, frozen=True):
    """A data source and what reads it."""

    plugin_ref: Name
    extractors: list[Reference] = []


class DataLayerEntry(_Strict, frozen=True):
    """Sources of what is known of endpoints.

    Attributes:
        inject_defaults: Metrics are read even where no source says so.
        discovery: Where endpoints come from.
        peer_discovery: Where other routers come from; no plugin can do that.
        cross_replica_syncer_plugin_ref: What tells them; no plugin can do that.
    """

    inject_defaults: bool = True
    sources: list[SourceEntry] = []
    discovery: Reference | None = None
    peer_discovery: Reference | None = None
    cross_replica_syncer_plugin_ref: str | None = None
    cross_replica_sync_interval: str = "200ms"

    def __post_init__(self) -> None:
        seconds(self.cross_replica_sync_interval, "crossReplicaSyncInterval")


class BandEntry(_Strict, frozen=True):
    """What a priority band may hold, and how it is served."""

    max_bytes: Amount = 0
    max_requests: Amount = 0
    fairness_policy_ref: str = ""
    ordering_policy_ref: str = ""

    def __post_init__(self) -> None:
        quantity(self.max_bytes, "maxBytes")
        quantity(self.max_requests, "maxRequests")


class PriorityBandEntry(BandEntry, frozen=True, kw_only=True):
    """The band of one priority."""

    priority: int


class FlowControlEntry(_Strict, frozen=True):
    """Queues in front of the pool.

    Attributes:
        saturation_detector: Says when the pool is full; counts without queues, too.
    """

    max_bytes: Amount = 0
    max_requests: Amount = 0
    default_request_ttl: str | None = msgspec.field(default=None, name="defaultRequestTTL")
    no_endpoint_request_ttl: str | None = msgspec.field(default=None, name="noEndpointRequestTTL")
    default_priority_band: BandEntry | None = None
    default_negative_priority_band: BandEntry | None = None
    priority_bands: list[PriorityBandEntry] = []
    usage_limit_policy_plugin_ref: str | None = None
    saturation_detector: Reference | None = None
    enable_eviction: bool = False

    def __post_init__(self) -> None:
        quantity(self.max_bytes, "maxBytes")
        quantity(self.max_requests, "maxRequests")
        for name, ttl in (
            ("defaultRequestTTL", self.default_request_ttl),
            ("noEndpointRequestTTL", self.no_endpoint_request_ttl),
        ):
            if ttl is not None:
                seconds(ttl, name)
        levels = [band.priority for band in self.priority_bands]
        repeated = sorted({level for level in levels if levels.count(level) > 1})
        if repeated:
            raise ValueError(f"duplicate priority level {repeated[0]} in priorityBands")


class RequestHandlerEntry(_Strict, frozen=True):
    """Who reads requests.

    Attributes:
        parsers: In order; the first that claims a path reads it.
    """

    parsers: list[Reference] = []


class EndpointPickerConfig(_Strict, frozen=True):
    """The file.

    Attributes:
        saturation_detector: Older place of `flowControl.saturationDetector`.
        parser: Older place of `requestHandler.parsers`.
    """

    api_version: str
    kind: Literal["EndpointPickerConfig"]
    feature_gates: list[str] = []
    plugins: list[PluginEntry] = []
    scheduling_profiles: list[ProfileEntry] = []
    data_layer: DataLayerEntry = DataLayerEntry()
    flow_control: FlowControlEntry = FlowControlEntry()
    request_handler: RequestHandlerEntry = RequestHandlerEntry()
    saturation_detector: Reference | None = None
    parser: Reference | None = None
