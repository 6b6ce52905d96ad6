"""The prefixes that were found in caches most often: how long they are and where, never what."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from router.telemetry.decisions import Record

SHOWN = 8


class Hot(msgspec.Struct, frozen=True):
    """One prefix among the last requests.

    Attributes:
        id: Names it: the hash of its last block and all before.
        tokens: Its length.
        requests: Requests that found it.
        saved_tokens: What they did not have to compute because of it.
        endpoints: Endpoint address -> those of them it was given, most first.
    """

    id: str
    tokens: int
    requests: int
    saved_tokens: int
    endpoints: dict[str, int]


def hottest(records: Iterable[Record]) -> list[Hot]:
    """Most saved tokens first."""
    found: dict[str, list[Record]] = {}
    for record in records:
        if record.prefix_id and record.predicted_cached_tokens:
            found.setdefault(record.prefix_id, []).append(record)
    hot = [_hot(name, users) for name, users in found.items() if len(users) > 1]
    return sorted(hot, key=lambda prefix: -prefix.saved_tokens)[:SHOWN]


def _hot(name: str, users: list[Record]) -> Hot:
    counts: dict[str, int] = {}
    for record in users:
        address = record.endpoint or ""
        counts[address] = counts.get(address, 0) + 1
    saved = [record.predicted_cached_tokens or 0 for record in users]
    most_first = sorted(counts.items(), key=lambda item: -item[1])
    return Hot(name, max(saved), len(users), sum(saved), dict(most_first))
