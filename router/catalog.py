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
from router.scheduling.filters.decode import DecodeFilter
from router.scheduling.filters.header_based_testing import HeaderBasedTestingFilter
from router.scheduling.filters.prefill import PrefillFilter
from router.scheduling.pickers.max_score import MaxScorePicker
from router.scheduling.profiles.single import SingleProfileHandler
from router.scheduling.scorers.active_request import ActiveRequestScorer
from router.scheduling.scorers.kv_cache_utilization import KvCacheUtilizationScorer
from router.scheduling.scorers.prefix_cache import PrefixCacheScorer
from router.scheduling.scorers.queue import QueueScorer
from router.scheduling.types import Answerer, Filter, Picker, ProfileHandler, Scorer

HANDLERS: Mapping[str, type[ProfileHandler]] = {
    "single-profile-handler": SingleProfileHandler,
}

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
    **FILTERS,
    **SCORERS,
    **PICKERS,
    **ANSWERERS,
    **PRODUCERS,
    **SOURCES,
    **EXTRACTORS,
    **DISCOVERIES,
}
