"""Every plugin, one line each: the name in a configuration and the class behind it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from router.pool.sources import (
    CoreMetricsParameters,
    EndpointNotificationParameters,
    FileDiscoveryParameters,
    MetricsSourceParameters,
)
from router.producers.facts import InFlight, PrefixMatch, Tokens
from router.producers.inflight import InFlightLoadParameters
from router.producers.prefix_parameters import PrecisePrefixParameters
from router.producers.token_parameters import TokenParameters
from router.scheduling.answers.destination_endpoint_served import (
    DestinationEndpointServedVerifier,
)
from router.scheduling.deciders.always_disagg_multimodal import AlwaysDisaggMultimodalDecider
from router.scheduling.deciders.always_disagg_pd import AlwaysDisaggPdDecider
from router.scheduling.deciders.prefix_based_pd import PrefixBasedPdDecider
from router.scheduling.filters.decode import DecodeFilter
from router.scheduling.filters.header_based_testing import HeaderBasedTestingFilter
from router.scheduling.filters.prefill import PrefillFilter
from router.scheduling.pickers.max_score import MaxScorePicker
from router.scheduling.profiles.built_in import BuiltInHeaders
from router.scheduling.profiles.data_parallel import DataParallelProfileHandler
from router.scheduling.profiles.disagg import DisaggProfileHandler
from router.scheduling.profiles.header import HeaderProfileHandler
from router.scheduling.profiles.pd import PdProfileHandler
from router.scheduling.profiles.single import SingleProfileHandler
from router.scheduling.scorers.active_request import ActiveRequestScorer
from router.scheduling.scorers.kv_cache_utilization import KvCacheUtilizationScorer
from router.scheduling.scorers.prefix_cache import PrefixCacheScorer
from router.scheduling.scorers.queue import QueueScorer
from router.scheduling.types import (
    Answerer,
    Decider,
    Filter,
    Picker,
    ProfileHandler,
    Scorer,
    Staged,
)

HANDLERS: Mapping[str, type[ProfileHandler] | type[Staged]] = {
    "data-parallel-profile-handler": DataParallelProfileHandler,
    "disagg-profile-handler": DisaggProfileHandler,
    "header-profile-handler": HeaderProfileHandler,
    "pd-profile-handler": PdProfileHandler,
    "single-profile-handler": SingleProfileHandler,
}

DECIDERS: Mapping[str, type[Decider]] = {
    "always-disagg-multimodal-decider": AlwaysDisaggMultimodalDecider,
    "always-disagg-pd-decider": AlwaysDisaggPdDecider,
    "prefix-based-pd-decider": PrefixBasedPdDecider,
}

BUILT_IN: Mapping[str, type[msgspec.Struct]] = {
    "disagg-headers-handler": BuiltInHeaders,
    "prefill-header-handler": BuiltInHeaders,
}
"""Accepted and without effect: what they did needs no plugin here."""

FILTERS: Mapping[str, type[Filter]] = {
    "decode-filter": DecodeFilter,
    "header-based-testing-filter": HeaderBasedTestingFilter,
    "prefill-filter": PrefillFilter,
}

SCORERS: Mapping[str, type[Scorer]] = {
    "active-request-scorer": ActiveRequestScorer,
    "kv-cache-utilization-scorer": KvCacheUtilizationScorer,
    "prefix-cache-scorer": PrefixCacheScorer,
    "queue-scorer": QueueScorer,
}

PICKERS: Mapping[str, type[Picker]] = {
    "max-score-picker": MaxScorePicker,
}

ANSWERERS: Mapping[str, type[Answerer]] = {
    "destination-endpoint-served-verifier": DestinationEndpointServedVerifier,
}

PRODUCERS: Mapping[str, type[msgspec.Struct]] = {
    "token-producer": TokenParameters,
    "precise-prefix-cache-producer": PrecisePrefixParameters,
    "inflight-load-producer": InFlightLoadParameters,
}
"""Parameters of each producer, in the order producers run."""

PROVIDES: Mapping[str, type] = {
    "token-producer": Tokens,
    "precise-prefix-cache-producer": PrefixMatch,
    "inflight-load-producer": InFlight,
}
"""The fact each producer states."""

SOURCES: Mapping[str, type[msgspec.Struct]] = {
    "metrics-data-source": MetricsSourceParameters,
    "endpoint-notification-source": EndpointNotificationParameters,
}

EXTRACTORS: Mapping[str, type[msgspec.Struct]] = {
    "core-metrics-extractor": CoreMetricsParameters,
}

DISCOVERIES: Mapping[str, type[msgspec.Struct]] = {
    "file-discovery": FileDiscoveryParameters,
}

ALL: Mapping[str, type] = {
    **HANDLERS,
    **DECIDERS,
    **BUILT_IN,
    **FILTERS,
    **SCORERS,
    **PICKERS,
    **ANSWERERS,
    **PRODUCERS,
    **SOURCES,
    **EXTRACTORS,
    **DISCOVERIES,
}
