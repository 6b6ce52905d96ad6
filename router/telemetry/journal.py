"""Tells metrics, the kept decisions and the log of each request. IO (it logs)."""

from __future__ import annotations

from typing import Any, Protocol

import structlog

from router.errors import RouterError
from router.telemetry.decisions import Decisions, Record
from router.telemetry.metrics import Metrics

log = structlog.get_logger()


class Reader(Protocol):
    """Is told of each request, too; of one that was refused there is no end."""

    def routed(self, record: Record) -> None:
        """It has its endpoint."""
        ...

    def refused(self, record: Record, error: RouterError) -> None:
        """It was refused."""
        ...

    def ended(self, record: Record) -> None:
        """Its exchange is over."""
        ...


class Journal:
    """The director's observer. One line a request, at its end; never a prompt."""

    def __init__(self, metrics: Metrics, decisions: Decisions, *readers: Reader) -> None:
        self._metrics = metrics
        self._decisions = decisions
        self._readers = readers

    def routed(self, record: Record) -> None:
        """A request has its endpoint."""
        self._decisions.add(record)
        self._metrics.routed(record)
        for reader in self._readers:
            reader.routed(record)

    def refused(self, record: Record, error: RouterError) -> None:
        """A request was refused."""
        self._decisions.add(record)
        self._metrics.refused(record, error)
        for reader in self._readers:
            reader.refused(record, error)
        log.info(
            "request.ended",
            request_id=record.request_id,
            kind=record.kind,
            model=record.model,
            status=error.status,
            refused=record.refused,
            took_ms=round(record.took_ms, 2),
        )

    def gap(self, record: Record, seconds: float) -> None:
        """Another piece of a streamed answer came."""
        self._metrics.gap(record, seconds)

    def ended(self, record: Record) -> None:
        """A request's exchange is over."""
        self._metrics.ended(record)
        for reader in self._readers:
            reader.ended(record)
        log.info("request.ended", **_told(record))


def _told(record: Record) -> dict[str, Any]:
    """What the line of an answered request says of it."""
    endpoint = record.endpoint or ""
    told: dict[str, Any] = {
        "request_id": record.request_id,
        "kind": record.kind,
        "model": record.model,
        "endpoint": endpoint,
        "status": record.status,
        "prompt_tokens": record.prompt_tokens,
        "predicted": record.predicted_cached_tokens,
        "reported": record.reported_cached_tokens,
        "scores": {name: round(by.get(endpoint, 0.0), 3) for name, by in record.scores.items()},
        "took_ms": round(record.took_ms, 2),
        "duration_ms": round(record.duration_ms or 0.0, 1),
    }
    if record.prefill is not None:
        told["prefill"] = record.prefill.endpoints[0]
        told["prefill_result"] = record.prefill_result
    if record.fallbacks:
        told["fallbacks"] = list(record.fallbacks)
    return told
