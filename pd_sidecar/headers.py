"""Header names, and which headers are passed on."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

PREFILLER = "x-prefiller-host-port"
ENCODERS = "x-encoder-hosts-ports"
DATA_PARALLEL = "x-data-parallel-host-port"
DATA_PARALLEL_RANK = "x-data-parallel-rank"
REQUEST_ID = "x-request-id"

RESULT = "x-warmroute-prefill"
"""Tells the router what became of a prefill: ``ok`` or ``failed``."""

_ROUTING = frozenset({PREFILLER, ENCODERS, DATA_PARALLEL, "x-gateway-destination-endpoint"})

_HOP_BY_HOP = frozenset(
    {
        "connection",
        "keep-alive",
        "proxy-authenticate",
        "proxy-authorization",
        "proxy-connection",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
    }
)
"""What concerns one connection only (RFC 9110, 7.6.1)."""

_REQUEST = _HOP_BY_HOP | _ROUTING | {"host", "expect"}
_RESPONSE = _HOP_BY_HOP | {RESULT}

Pairs = Iterable[tuple[str, str]]


def to_engine(headers: Pairs, *, same_body: bool) -> Iterator[tuple[str, str]]:
    """Request headers that an engine gets; without the length if the body is another one."""
    dropped = _REQUEST if same_body else _REQUEST | {"content-length", "content-encoding"}
    return _without(headers, dropped)


def to_client(headers: Pairs, *, same_body: bool) -> Iterator[tuple[str, str]]:
    """Response headers that the client gets; without the length if the body may change."""
    return _without(headers, _RESPONSE if same_body else _RESPONSE | {"content-length"})


def _without(headers: Pairs, dropped: frozenset[str]) -> Iterator[tuple[str, str]]:
    listed = list(headers)
    named = ",".join(value for name, value in listed if name.lower() == "connection")
    dropped = dropped | {token.strip().lower() for token in named.split(",")}
    return ((name, value) for name, value in listed if name.lower() not in dropped)
