"""Every plugin, one line each: the name in a configuration and the class behind it."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from router.admission.probabilistic import ProbabilisticAdmitter
from router.admission.saturation import Detector
from router.pool.core_metrics import CoreMetricsParameters
from router.pool.sources import (
    DcgmExtractorParameters,
    DcgmSourceParameters,
    EndpointNotificationParameters,
    FileDiscoveryParameters,
    MetricsSourceParameters,
    ModelsExtractorParameters,
    ModelsSourceParameters,
)
from router.pool.topology import TopologyLabels
from router.producers.agent_identity import AgentIdentityParameters
from router.producers.approx_parameters import ApproxPrefixParameters
from router.producers.burst_parameters import BurstPrefixParameters
from router.producers.encoder_cache import EncoderCacheParameters
from router.producers.facts import (
    EncoderCacheMatch,
    FairnessId,
    InFlight,
    PrefixMatch,
    SessionId,
    Tokens,
    Uncached,
)
from router.producers.inflight import InFlightLoadParameters
from router.producers.p2p_source import P2PSourceParameters
from router.producers.prefix_parameters import PrecisePrefixParameters
from router.producers.session import SessionIdParameters
from router.producers.token_parameters import TokenParameters
from router.request.parsers import (
    AnthropicParser,
    OpenAiParser,
    ParserPlugin,
    PassthroughParser,
    SglangHttpParser,
    VllmHttpParser,
)
from router.scheduling.answers.destination_endpoint_served import (
    DestinationEndpointServedVerifier,
)
from router.scheduling.deciders.always_disagg_multimodal import AlwaysDisaggMultimodalDecider
from router.scheduling.deciders.always_disagg_pd import AlwaysDisaggPdDecider
from router.scheduling.deciders.prefix_based_pd import PrefixBasedPdDecider
from router.scheduling.filters.by_label import ByLabel
from router.scheduling.filters.concurrency_detector import ConcurrencyDetector
from router.scheduling.filters.decode import DecodeFilter
from router.scheduling.filters.encode import EncodeFilter
from router.scheduling.filters.endpoint_attribute import EndpointAttributeFilter
from router.scheduling.filters.header_based_testing import HeaderBasedTestingFilter
from router.scheduling.filters.label_selector import LabelSelectorFilter
from router.scheduling.filters.load_gate import LoadGateFilter
from router.scheduling.filters.prefill import PrefillFilter
from router.scheduling.filters.prefix_cache_affinity import PrefixCacheAffinityFilter
from router.scheduling.filters.session_affinity import SessionAffinityFilterParameters
from router.scheduling.filters.topology_affinity import TopologyAffinityFilter
from router.scheduling.filters.utilization import UtilizationFilter
from router.scheduling.filters.utilization_detector import UtilizationDetector
from router.scheduling.pickers.max_score import MaxScorePicker
from router.scheduling.pickers.near_max import NearMaxPicker
from router.scheduling.pickers.random_choice import RandomPicker
from router.scheduling.pickers.weighted_random import WeightedRandomPicker
from router.scheduling.profiles.built_in import BuiltInHeaders
from router.scheduling.profiles.data_parallel import DataParallelProfileHandler
from router.scheduling.profiles.disagg import DisaggProfileHandler
from router.scheduling.profiles.header import HeaderProfileHandler
from router.scheduling.profiles.pd import PdProfileHandler
from router.scheduling.profiles.single import SingleProfileHandler
from router.scheduling.scorers.active_request import ActiveRequestScorer
from router.scheduling.scorers.context_length_aware import ContextLengthAware
from router.scheduling.scorers.endpoint_attribute import EndpointAttributeScorer
from router.scheduling.scorers.header_label_affinity import HeaderLabelAffinityScorer
from router.scheduling.scorers.kv_affinity import KvAffinityScorer
from router.scheduling.scorers.kv_cache_utilization import KvCacheUtilizationScorer
from router.scheduling.scorers.kv_cost import KvCostScorer
from router.scheduling.scorers.load_aware import LoadAwareScorer
from router.scheduling.scorers.lora_affinity import LoraAffinityScorer
from router.scheduling.scorers.mm_embeddings_cache import MmEmbeddingsCacheScorer
from router.scheduling.scorers.no_hit_lru import NoHitLruParameters
from router.scheduling.scorers.precise_prefix_cache import PrecisePrefixScorerParameters
from router.scheduling.scorers.prefix_cache import PrefixCacheScorer
from router.scheduling.scorers.queue import QueueScorer
from router.scheduling.scorers.running_requests_size import RunningRequestsSizeScorer
from router.scheduling.scorers.session_affinity import SessionAffinityScorerParameters
from router.scheduling.scorers.token_load import TokenLoadScorer
from router.scheduling.scorers.topology_affinity import TopologyAffinityScorer
from router.scheduling.types import (
    Admitter,
    Answerer,
    Builds,
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

FILTERS: Mapping[str, type[Filter] | type[Builds[Filter]]] = {
    "by-label": ByLabel,
    "concurrency-detector": ConcurrencyDetector,
    "context-length-aware": ContextLengthAware,
    "decode-filter": DecodeFilter,
    "encode-filter": EncodeFilter,
    "endpoint-attribute-filter": EndpointAttributeFilter,
    "header-based-testing-filter": HeaderBasedTestingFilter,
    "label-selector-filter": LabelSelectorFilter,
    "load-gate-filter": LoadGateFilter,
    "prefill-filter": PrefillFilter,
    "prefix-cache-affinity-filter": PrefixCacheAffinityFilter,
    "session-affinity-filter": SessionAffinityFilterParameters,
    "topology-affinity-filter": TopologyAffinityFilter,
    "utilization-detector": UtilizationDetector,
    "utilization-filter": UtilizationFilter,
}

ADMITTERS: Mapping[str, type[Admitter]] = {
    "probabilistic-admitter": ProbabilisticAdmitter,
}

DETECTORS: Mapping[str, type[Detector]] = {
    "concurrency-detector": ConcurrencyDetector,
    "utilization-detector": UtilizationDetector,
}
"""Filters, too: a profile may list them."""

PARSERS: Mapping[str, type[ParserPlugin]] = {
    "openai-parser": OpenAiParser,
    "anthropic-parser": AnthropicParser,
    "vllmhttp-parser": VllmHttpParser,
    "sglanghttp-parser": SglangHttpParser,
    "passthrough-parser": PassthroughParser,
}
"""In the order they are asked where a configuration lists none."""

SCORERS: Mapping[str, type[Scorer] | type[Builds[Scorer]]] = {
    "active-request-scorer": ActiveRequestScorer,
    "context-length-aware": ContextLengthAware,
    "endpoint-attribute-scorer": EndpointAttributeScorer,
    "header-label-affinity-scorer": HeaderLabelAffinityScorer,
    "kv-affinity-scorer": KvAffinityScorer,
    "kv-cache-utilization-scorer": KvCacheUtilizationScorer,
    "kv-cost-scorer": KvCostScorer,
    "load-aware-scorer": LoadAwareScorer,
    "lora-affinity-scorer": LoraAffinityScorer,
    "mm-embeddings-cache-scorer": MmEmbeddingsCacheScorer,
    "no-hit-lru-scorer": NoHitLruParameters,
    "precise-prefix-cache-scorer": PrecisePrefixScorerParameters,
    "prefix-cache-scorer": PrefixCacheScorer,
    "queue-scorer": QueueScorer,
    "running-requests-size-scorer": RunningRequestsSizeScorer,
    "session-affinity-scorer": SessionAffinityScorerParameters,
    "token-load-scorer": TokenLoadScorer,
    "topology-affinity-scorer": TopologyAffinityScorer,
}

PICKERS: Mapping[str, type[Picker]] = {
    "max-score-picker": MaxScorePicker,
    "near-max-picker": NearMaxPicker,
    "random-picker": RandomPicker,
    "weighted-random-picker": WeightedRandomPicker,
}

ANSWERERS: Mapping[str, type[Answerer]] = {
    "destination-endpoint-served-verifier": DestinationEndpointServedVerifier,
}

PRODUCERS: Mapping[str, type[msgspec.Struct]] = {
    "session-id-producer": SessionIdParameters,
    "agent-identity": AgentIdentityParameters,
    "token-producer": TokenParameters,
    "mm-embeddings-cache-producer": EncoderCacheParameters,
    "approx-prefix-cache-producer": ApproxPrefixParameters,
    "precise-prefix-cache-producer": PrecisePrefixParameters,
    "burst-prefix-cache-producer": BurstPrefixParameters,
    "inflight-load-producer": InFlightLoadParameters,
    "p2p-source-producer": P2PSourceParameters,
}
"""Parameters of each producer, in the order producers run: who reads a fact after who states it. Of
facts that several state, the first one counts where none is named."""

PROVIDES: Mapping[str, tuple[type, ...]] = {
    "session-id-producer": (SessionId,),
    "agent-identity": (SessionId, FairnessId),
    "token-producer": (Tokens,),
    "mm-embeddings-cache-producer": (EncoderCacheMatch,),
    "approx-prefix-cache-producer": (PrefixMatch,),
    "precise-prefix-cache-producer": (PrefixMatch,),
    "burst-prefix-cache-producer": (PrefixMatch,),
    "inflight-load-producer": (InFlight, Uncached),
    "p2p-source-producer": (),
}
"""The facts each producer states to others."""

SOURCES: Mapping[str, type[msgspec.Struct]] = {
    "metrics-data-source": MetricsSourceParameters,
    "models-data-source": ModelsSourceParameters,
    "dcgm-data-source": DcgmSourceParameters,
    "endpoint-notification-source": EndpointNotificationParameters,
}

EXTRACTORS: Mapping[str, type[msgspec.Struct]] = {
    "core-metrics-extractor": CoreMetricsParameters,
    "models-data-extractor": ModelsExtractorParameters,
    "dcgm-extractor": DcgmExtractorParameters,
    "topology-extractor": TopologyLabels,
}

DISCOVERIES: Mapping[str, type[msgspec.Struct]] = {
    "file-discovery": FileDiscoveryParameters,
}

ALL: Mapping[str, type] = {
    **PARSERS,
    **ADMITTERS,
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
