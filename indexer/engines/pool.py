"""Events of KV cache pools (Mooncake, Memcache, YuanRong): msgpack bytes to a `Batch`.

A pool tells of blocks by the names that engines gave them, without their tokens. Mooncake and
YuanRong send ``[time, [event, ...], rank]``, Memcache ``{"events": [event, ...]}``; an event is a
map. Engines' own events may stand on the same stream; they tell tokens, too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from indexer.engines import vllm
from indexer.engines.hash_field import number
from indexer.events import (
    AllBlocksCleared,
    Batch,
    BlockRemoved,
    BlockStored,
    Change,
    Event,
    PoolTold,
    Reason,
)
from indexer.media import LOWER, tier_of

CHANGES: Mapping[str, Change] = {
    "stored": Change.STORED,
    "removed": Change.REMOVED,
    "cleared": Change.CLEARED,
    "blockstored": Change.STORED,
    "blockremoved": Change.REMOVED,
    "allblockscleared": Change.CLEARED,
}

_OF_POOLS = frozenset({"event_type", "seq_hashes", "backend_id"})
"""Fields that only events of pools have."""

_decode = msgspec.msgpack.Decoder().decode
_UNREADABLE = (msgspec.DecodeError, RecursionError)


def decode(payload: bytes, tiers: Sequence[str] = LOWER, *, settled: bool = False) -> Batch:
    """Never raises: what cannot be read is in `rejected`.

    `tiers` are those the stream tells of; the first is that of stores that name none. `settled`:
    engines' events on it tell of them, too.
    """
    try:
        content = _decode(payload)
    except _UNREADABLE:
        return Batch((), rejected=(Reason.NOT_MSGPACK,))
    raw_events = _events(content)
    if raw_events is None:
        return Batch((), rejected=(Reason.BAD_BATCH,))
    if not any(map(_is_of_a_pool, raw_events)):
        batch = vllm.decode(payload)
        return _settled(batch, tiers[0]) if settled else batch
    events: list[Event] = []
    rejected: list[Reason] = []
    for raw in raw_events:
        told = pool_event(raw, tiers)
        if isinstance(told, Reason):
            rejected.append(told)
        else:
            events.extend(told)
    return Batch(events, rejected=rejected)


def pool_event(raw: object, tiers: Sequence[str]) -> Sequence[PoolTold] | Reason:
    """What one event says, once for each tier it may mean."""
    if not isinstance(raw, dict):
        return Reason.BAD_EVENT
    kind = raw.get("event_type") or raw.get("type")
    change = CHANGES.get(kind.lower()) if isinstance(kind, str) else None
    if change is None:
        return Reason.UNKNOWN_EVENT
    try:
        names = [number(h) for h in (*_list(raw, "seq_hashes"), *_list(raw, "block_hashes"))]
        medium, node, tenant = (_text(raw, key) for key in ("medium", "backend_id", "tenant_id"))
    except ValueError:
        return Reason.BAD_EVENT
    rank = raw.get("dp_rank")
    meant = [tier_of(medium)] if medium else tiers
    if change is Change.STORED:
        meant = meant[:1]
    return [
        PoolTold(
            change,
            list(dict.fromkeys(names)),
            tier,
            node,
            rank if type(rank) is int and rank >= 0 else None,
            tenant,
        )
        for tier in meant
    ]


def _events(content: object) -> Sequence[Any] | None:
    if isinstance(content, dict):
        content = [None, content.get("events")]
    if not isinstance(content, list) or len(content) < 2 or not isinstance(content[1], list):
        return None
    return content[1]


def _is_of_a_pool(raw: object) -> bool:
    if not isinstance(raw, dict):
        return False
    return not _OF_POOLS.isdisjoint(raw) or raw.get("type") in CHANGES


def _settled(batch: Batch, tier: str) -> Batch:
    """An engine's events on a stream of a lower tier, which is what they mean."""
    events: list[Event] = []
    for event in batch.events:
        if isinstance(event, BlockStored | BlockRemoved):
            where = tier if event.tier not in LOWER else event.tier
            event = msgspec.structs.replace(event, tier=where, settled=True)
        elif event == AllBlocksCleared():
            event = AllBlocksCleared(tier)
        events.append(event)
    return msgspec.structs.replace(batch, events=events)


def _list(raw: Mapping[str, Any], name: str) -> Sequence[Any]:
    """Raises ValueError."""
    value = raw.get(name)
    if value is not None and not isinstance(value, list):
        raise ValueError(name)
    return value or ()


def _text(raw: Mapping[str, Any], name: str) -> str | None:
    """Raises ValueError."""
    value = raw.get(name)
    if value is not None and not isinstance(value, str):
        raise ValueError(name)
    return value or None
