"""Header names of the endpoint picker protocol, and which of them never pass the router."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from router.extproc.pb.ext_proc_pb2 import HeaderMap

DESTINATION = "x-gateway-destination-endpoint"
"""Where Envoy sends the request: header and metadata key of the endpoint picker protocol."""

METADATA_NAMESPACE = "envoy.lb"
"""Dynamic metadata namespace that holds `DESTINATION` a second time."""

SCORES = "x-gateway-destination-endpoint-scores"
"""Key there of what each candidate scored, where that is asked for."""

PREFILLER = "x-prefiller-host-port"
PREFILL_RESULT = "x-warmroute-prefill"
"""Of an answer: what became of its prefill, from the decode engine's sidecar to the router."""

PREFILLED = "ok"
ENCODERS = "x-encoder-hosts-ports"
DATA_PARALLEL_RANK = "x-data-parallel-rank"
"""Names a rank behind an engine's one port; clients may set it, too."""

DATA_PARALLEL = "x-data-parallel-host-port"
CACHE_SOURCE = "x-kv-cache-source-host-port"
REQUEST_ID = "x-request-id"
TRACEPARENT = "traceparent"
TRACESTATE = "tracestate"
CONTENT_LENGTH = "content-length"
CONTENT_ENCODING = "content-encoding"
DROPPED_REASON = "x-llm-d-request-dropped-reason"

ROUTING = (
    DESTINATION,
    PREFILLER,
    ENCODERS,
    DATA_PARALLEL,
    CACHE_SOURCE,
    DROPPED_REASON,
)
"""Headers that steer the data plane. Only the router may set them: a client that could would make
Envoy or a decode sidecar connect to an address of the client's choosing."""

MODEL_REWRITE = ("x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite")
"""The model a request is sent to instead of the one it names; the first one counts."""

OBJECTIVE = ("x-llm-d-inference-objective", "x-gateway-inference-objective")
"""Names the objective whose priority a request has; the first one counts."""

FAIRNESS_IDS = ("x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id")
"""On whose account a request goes; the first one counts."""

EXPLAIN = "x-warmroute-explain"
"""A client that sends it, with any value, asks why its request goes where it goes."""

DECISION = "x-warmroute-decision"
"""What it is told: the decision in one line, on the answer."""

CONTROL = (
    EXPLAIN,
    *OBJECTIVE,
    *FAIRNESS_IDS,
    *MODEL_REWRITE,
    "x-llm-d-slo-ttft-ms",
    "x-slo-ttft-ms",
    "x-llm-d-slo-tpot-ms",
    "x-slo-tpot-ms",
    "x-llm-d-video-fps",
    "x-llm-d-video-duration-seconds",
    "x-llm-d-video-resolution",
    "epp-profile",
    "test-epp-endpoint-selection",
)
"""Headers meant for the router: read here, then removed (names and aliases of llm-d)."""

REMOVED = ROUTING + CONTROL


def text_of(headers: Mapping[str, str], names: Iterable[str]) -> str:
    """The first of the named headers that is there, as UTF-8 where it is that; else empty."""
    for name in names:
        value = headers.get(name)
        if value:
            return value if value.isascii() else _as_utf8(value)
    return ""


def _as_utf8(value: str) -> str:
    try:
        return value.encode("latin-1").decode()
    except (UnicodeDecodeError, UnicodeEncodeError):
        return value


def flatten(headers: HeaderMap) -> Mapping[str, str]:
    """Lower-case name -> value; of a repeated name the last one counts.

    Envoy fills `raw_value`; other data planes may fill `value`. Header bytes are Latin-1 on the
    wire.
    """
    return {
        header.key.lower(): header.raw_value.decode("latin-1") or header.value
        for header in headers.headers
    }
