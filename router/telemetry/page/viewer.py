"""What one viewer of the page has seen of the decisions, and what is new to it.

Nothing is queued for a viewer: it is shown what is there when it can take more. One that is slow,
or a burst of requests, misses decisions and never holds any up.
"""

from __future__ import annotations

import msgspec

from router.telemetry.decisions import Decisions, Record

SHOWN = 100
"""Decisions a viewer is shown, the newest."""


class Brief(msgspec.Struct, frozen=True, kw_only=True):
    """One decision in a line; the fields are those of its record.

    Attributes:
        reported_cached_tokens: What the engine says it reused; None where it did not say.
        fallbacks: How many things had to be done without.
    """

    request_id: str
    at: float
    kind: str
    model: str
    endpoint: str | None
    prefill: str | None
    refused: str | None
    took_ms: float
    prompt_tokens: int | None
    predicted_cached_tokens: int | None
    reported_cached_tokens: int | None
    fallbacks: int
    status: int | None
    duration_ms: float | None
    completed: bool


_Seen = dict[tuple[str, float], tuple[int | None, float | None]]


class Viewer:
    """Bounded by what is shown."""

    def __init__(self) -> None:
        self._seen: _Seen = {}

    def news(self, decisions: Decisions) -> list[Brief]:
        """What came or went on since the last call, oldest first."""
        newest = decisions.last(SHOWN)
        changed = [record for record in newest if self._seen.get(_key(record)) != _version(record)]
        self._seen = {_key(record): _version(record) for record in newest}
        return [_brief(record) for record in reversed(changed)]


def _key(record: Record) -> tuple[str, float]:
    # Clients may use an id again.
    return record.request_id, record.at


def _version(record: Record) -> tuple[int | None, float | None]:
    return record.status, record.duration_ms


def _brief(record: Record) -> Brief:
    prefill = record.prefill
    return Brief(
        request_id=record.request_id,
        at=record.at,
        kind=record.kind,
        model=record.model,
        endpoint=record.served or record.endpoint,
        prefill=prefill.endpoints[0] if prefill else None,
        refused=record.refused,
        took_ms=record.took_ms,
        prompt_tokens=record.prompt_tokens,
        predicted_cached_tokens=record.predicted_cached_tokens,
        reported_cached_tokens=record.reported_cached_tokens,
        fallbacks=len(record.fallbacks),
        status=record.status,
        duration_ms=record.duration_ms,
        completed=record.completed,
    )
