"""Plugin types of llm-d that are accepted and do not run, as one table.

Their parameters are checked like those of any other plugin, so that the configuration is right on
the day they do run. A profile or a source that lists one goes on without it.
"""

from __future__ import annotations

import enum
from collections.abc import Mapping
from typing import Any

import msgspec


class Role(enum.StrEnum):
    """What a plugin would do."""

    FAIRNESS = "fairness policy"
    ORDERING = "ordering policy"
    USAGE_LIMIT = "usage limit policy"
    EVICTION = "eviction policy"
    FILTER = "filter"
    SCORER = "scorer"
    PRODUCER = "producer"
    ADMITTER = "admitter"
    SCREENER = "screener"
    SOURCE = "data source"
    EXTRACTOR = "extractor"
    DISCOVERY = "discovery"
    PARSER = "parser"
    REPORTER = "reporter"


class Inactive(msgspec.Struct, frozen=True):
    """A type that is accepted.

    Attributes:
        role: Where it may be referred to.
        why: What does not happen, and what happens instead.
        parameters: Its parameters and their types, as a configuration writes them.
        refused: Why requests could not be routed where nothing else has its role; None where they
            could.
    """

    role: Role
    why: str
    parameters: Mapping[str, Any] = {}
    refused: str | None = None

    def cls(self) -> type[msgspec.Struct]:
        """What its parameters are decoded as. One that is left out is left out there, too."""
        fields = [
            (
                _snake(name),
                kind | msgspec.UnsetType,
                msgspec.field(default=msgspec.UNSET, name=name),
            )
            for name, kind in self.parameters.items()
        ]
        return msgspec.defstruct("Parameters", fields, frozen=True, forbid_unknown_fields=True)


_NO_QUEUES = "there are no flow-control queues: a request is admitted or refused at once"
_NO_EVICTION = "requests in flight are not taken back"
_NO_PREDICTION = "latency is not predicted"
_ONE_CLUSTER = "endpoints of other clusters are not known"
_NO_KUBERNETES = "Kubernetes objects are not watched"
_NO_GRPC = "gRPC bodies are not read: such requests go by load"

_TLS = {
    "scheme": str,
    "path": str,
    "port": int,
    "interval": str,
    "insecureSkipVerify": bool,
    "caCertPath": str,
    "clientCertPath": str,
    "clientKeyPath": str,
}
_APPROX = {
    "autoTune": bool,
    "blockSizeTokens": int,
    "blockSize": int,
    "maxPrefixTokensToMatch": int,
    "maxPrefixBlocksToMatch": int,
    "lruCapacityPerServer": int,
}
_PREDICTOR = {
    "sloBufferFactor": float,
    "contextTTL": int,
    "streamingMode": bool,
    "endpointRoleLabel": str,
    "predictInProduce": bool,
    "prefixMatchInfoProducerName": str,
    "inFlightLoadProducerName": str,
    "useEncoderCacheFeatures": bool,
    "encoderCacheMatchInfoProducerName": str,
    "samplingMean": float,
    "maxDecodeTokenSamplesForPrediction": int,
}
_LATENCY_SCORER = {
    "ttftWeight": float,
    "tpotWeight": float,
    "headroomSelectionStrategy": str,
    "compositeKVWeight": float,
    "compositeQueueWeight": float,
    "compositePrefixWeight": float,
    "latencyPredictionInfoProducerName": str,
}
_PROGRAM_AWARE = {
    "strategy": str,
    "evictionTtlSeconds": float,
    "evictionSweepSeconds": float,
    "lasWeightService": float,
    "lasWeightHeadWait": float,
    "lasHalfLifeSeconds": float,
}
_HOLDBACK = {"shape": str, "domain": str, "minCeiling": float, "maxCeiling": float}
_AFFINITY = {
    "strategy": str,
    "encodedEndpointHeaderConfig": dict[str, Any],
    "sessionIdConfig": dict[str, Any],
    "profileName": str,
}
_ROLLOUT = {
    "scope": dict[str, Any],
    "headerSelectors": list[dict[str, Any]],
    "revisionGating": dict[str, Any],
}

INACTIVE: Mapping[str, Inactive] = {
    "fcfs-ordering-policy": Inactive(Role.ORDERING, _NO_QUEUES),
    "edf-ordering-policy": Inactive(Role.ORDERING, _NO_QUEUES),
    "slo-deadline-ordering-policy": Inactive(Role.ORDERING, _NO_QUEUES),
    "global-strict-fairness-policy": Inactive(Role.FAIRNESS, _NO_QUEUES),
    "round-robin-fairness-policy": Inactive(Role.FAIRNESS, _NO_QUEUES),
    "program-aware-fairness": Inactive(Role.FAIRNESS, _NO_QUEUES, _PROGRAM_AWARE),
    "static-usage-limit-policy": Inactive(Role.USAGE_LIMIT, _NO_QUEUES, {"threshold": float}),
    "priority-holdback-policy": Inactive(Role.USAGE_LIMIT, _NO_QUEUES, _HOLDBACK),
    "soft-reflective-ceiling-policy": Inactive(Role.USAGE_LIMIT, _NO_QUEUES),
    "sheddable-eviction-filter": Inactive(Role.EVICTION, _NO_EVICTION),
    "priority-then-time-eviction-order-policy": Inactive(Role.EVICTION, _NO_EVICTION),
    "predicted-latency-producer": Inactive(Role.PRODUCER, _NO_PREDICTION, _PREDICTOR),
    "latency-scorer": Inactive(
        Role.SCORER, f"{_NO_PREDICTION}: the other scorers decide", _LATENCY_SCORER
    ),
    "slo-headroom-tier-filter": Inactive(
        Role.FILTER,
        f"{_NO_PREDICTION}: it keeps every endpoint",
        {"epsilonExploreNeg": float, "latencyPredictionInfoProducerName": str},
    ),
    "latency-slo-admitter": Inactive(
        Role.ADMITTER,
        f"{_NO_PREDICTION}: it admits every request",
        {"latencyPredictionInfoProducerName": str},
    ),
    "k8s-notification-source": Inactive(
        Role.SOURCE, _NO_KUBERNETES, {"group": str, "version": str, "kind": str}
    ),
    "disaggregatedset-rollout-screener": Inactive(Role.SCREENER, _NO_KUBERNETES, _ROLLOUT),
    "request-attribute-reporter": Inactive(
        Role.REPORTER,
        "CEL expressions are not evaluated: responses carry no such metadata",
        {"attributes": list[dict[str, Any]]},
    ),
    "vllmgrpc-parser": Inactive(
        Role.PARSER, _NO_GRPC, refused="gRPC bodies cannot be read, and no other parser is listed"
    ),
    "vertexai-parser": Inactive(
        Role.PARSER, _NO_GRPC, refused="gRPC bodies cannot be read, and no other parser is listed"
    ),
    "multicluster-queue-scorer": Inactive(Role.SCORER, _ONE_CLUSTER),
    "multicluster-kv-cache-utilization-scorer": Inactive(Role.SCORER, _ONE_CLUSTER),
    "multicluster-prefix-cache-scorer": Inactive(Role.SCORER, _ONE_CLUSTER),
    "multicluster-session-affinity-filter": Inactive(Role.FILTER, _ONE_CLUSTER, _AFFINITY),
    "multicluster-approx-prefix-cache-producer": Inactive(Role.PRODUCER, _ONE_CLUSTER, _APPROX),
    "multicluster-metrics-data-source": Inactive(Role.SOURCE, _ONE_CLUSTER, _TLS),
    "multicluster-metrics-extractor": Inactive(
        Role.EXTRACTOR,
        _ONE_CLUSTER,
        {"kvCacheUtilizationMetric": str, "queueSizeMetric": str},
    ),
    "multicluster-file-discovery": Inactive(
        Role.DISCOVERY,
        _ONE_CLUSTER,
        {"path": str, "watchFile": bool},
        refused="endpoints of other clusters cannot be reached: use file-discovery or --endpoints",
    ),
}


def _snake(name: str) -> str:
    return "".join(f"_{c.lower()}" if c.isupper() else c for c in name)
