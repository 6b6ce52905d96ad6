"""What `warmroute up` prints of a request: one line, from the router's own log event."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from warmroute.tables import plain

EVENT = "request.ended"

PROBE_ID = "warmroute-up"
"""Request id of the request that shows `up` that everything works; it is nobody's."""

UNKNOWN = "\N{EN DASH}"


class _Ended(msgspec.Struct):
    event: str
    request_id: str = ""
    kind: str = ""
    endpoint: str | None = None
    prefill: str | None = None
    prefill_result: str | None = None
    status: int | None = None
    refused: str | None = None
    took_ms: float = 0.0
    duration_ms: float | None = None
    prompt_tokens: int | None = None
    predicted: int | None = None
    reported: int | None = None
    scores: Mapping[str, float] = {}


_decoder = msgspec.json.Decoder(_Ended)


def request_line(event: str) -> str | None:
    """A line for people; None for an event that is no request."""
    try:
        ended = _decoder.decode(event)
    except msgspec.DecodeError:
        return None
    if ended.event != EVENT or ended.request_id == PROBE_ID:
        return None
    if ended.refused is not None:
        return plain(f"{ended.kind:<10}  refused  {ended.refused}")
    scores = "  ".join(f"{name} {value:.2f}" for name, value in ended.scores.items())
    return (
        f"{ended.kind:<10}  {ended.endpoint or UNKNOWN:<16}  {_number(ended.status)}  "
        f"cached {_number(ended.predicted)} predicted, {_number(ended.reported)} reported "
        f"of {_number(ended.prompt_tokens)}  {_prefill(ended)}{scores}  "
        f"pick {ended.took_ms:.1f} ms, all {ended.duration_ms or 0:.0f} ms"
    )


def _prefill(ended: _Ended) -> str:
    """Where the prompt was computed, if elsewhere."""
    if ended.prefill is None:
        return ""
    failed = " failed" if ended.prefill_result == "failed" else ""
    return f"prefill {ended.prefill}{failed}  "


def _number(value: int | None) -> str:
    return UNKNOWN if value is None else str(value)
