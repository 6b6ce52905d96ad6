"""Event streams for people and for gauges: how far each is, what it lost, and what it is worth."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from indexer.block import Trust
from indexer.catch_up import MAX_WAITING_MESSAGES
from indexer.feed import Feed
from indexer.intake import MAX_UNNAMED_MESSAGES
from router.producers.prefix import PrecisePrefix
from router.telemetry.samples import Sample, Values
from router.telemetry.stream_faults import of_stream

_LABELS = ("producer", "model_server_endpoint", "rank")

_COUNTERS = {
    "messages": "Messages received.",
    "duplicates": "Messages received again and dropped.",
    "gaps": "Times the sequence jumped ahead.",
    "missed": "Messages that were jumped over; replays may have brought them.",
    "restarts": "Times an engine began anew and everything was dropped.",
    "losses": "Times the connection was lost.",
    "replays": "Replays that came to their end.",
    "replays_failed": "Replays that did not.",
    "replayed": "Messages that came by replays.",
    "truncated": "Replays whose beginning the engine no longer had.",
}
"""Fields of `FeedStats` that only grow while a stream is open."""


def describe(feed: Feed) -> Mapping[str, Any]:
    """All that is known of one stream."""
    return {
        "holder": feed.source.holder,
        "endpoint": feed.source.endpoint,
        "replay": feed.source.replay,
        "base_model": feed.base_model,
        "models": sorted(feed.models),
        "trust": feed.trust,
        "waiting": len(feed.catch_up.waiting),
        "replay_wanted_from": feed.catch_up.wants,
        "restored": feed.restored is not None,
        "stats": feed.stats,
        "rejected": dict(feed.rejected),
        "faults": list(of_stream(feed)),
    }


def describe_central(prefix: PrecisePrefix) -> Mapping[str, Any] | None:
    """What came over the address that engines connect to; None where there is none."""
    if prefix.central is None:
        return None
    return {
        "endpoint": prefix.zmq_endpoint,
        "rejected": dict(prefix.central.rejected),
        "unknown_addresses": dict(prefix.central.unknown),
        "topics_left_out": dict(prefix.central.topics),
    }


def samples(prefix: PrecisePrefix) -> Iterator[Sample]:
    """Of open streams; those of one endpoint and rank are added up."""
    counts: dict[str, Counter[tuple[str, ...]]] = {field: Counter() for field in _COUNTERS}
    last: dict[tuple[str, ...], float] = {}
    lag: dict[tuple[str, ...], float] = {}
    trusted: Counter[Trust] = Counter()
    for feed in prefix.index.feeds():
        labels = (prefix.name, feed.source.holder.address, str(feed.source.holder.rank))
        trusted[feed.trust] += 1
        for field, counter in counts.items():
            counter[labels] += getattr(feed.stats, field)
        if feed.stats.last_seq is not None:
            last[labels] = float(feed.stats.last_seq)
        if feed.stats.lag_s is not None:
            lag[labels] = feed.stats.lag_s
    for field, text in _COUNTERS.items():
        yield Sample(f"warmroute_kv_stream_{field}", text, counts[field], _LABELS, True)
    yield Sample("warmroute_kv_stream_last_seq", "Number of the latest message.", last, _LABELS)
    yield Sample("warmroute_kv_stream_lag_seconds", "From sent to received.", lag, _LABELS)
    by_trust: Values = {(prefix.name, str(trust)): float(trusted[trust]) for trust in Trust}
    yield Sample("warmroute_kv_streams", "Open, by trust.", by_trust, ("producer", "trust"))
    yield from _under_llm_d_s_names(prefix)


def _under_llm_d_s_names(prefix: PrecisePrefix) -> Iterator[Sample]:
    feeds, pods = prefix.index.feeds(), ("pod_identifier",)
    received: Counter[tuple[str, ...]] = Counter()
    again: Counter[tuple[str, ...]] = Counter()
    for feed in feeds:
        received[(feed.source.holder.address,)] += feed.stats.messages
        again[(feed.source.holder.address,)] += max(feed.stats.connections - 1, 0)
    name = "llm_d_epp_kv_cache_events"
    yield Sample(f"{name}_messages_received", "Live messages.", received, pods, True)
    text = "Times a lost connection came back."
    yield Sample(f"{name}_subscriber_reconnections", text, again, pods, True)
    errors: Values = {key: float(count) for key, count in prefix.zmq_errors().items()}
    text = "Sockets that could not be made for events or replays, and reads that failed."
    yield Sample(f"{name}_zmq_errors", text, errors, (*pods, "operation"), True)
    waiting: Values = {(): float(sum(len(f.catch_up.waiting) + f.unnamed for f in feeds))}
    text = "Messages that wait to be applied, for a replay to end or a model to become known."
    yield Sample(f"{name}_pool_queue_depth", text, waiting)
    most: Values = {(): float(len(feeds) * (MAX_WAITING_MESSAGES + MAX_UNNAMED_MESSAGES))}
    text = "Messages that could wait at most."
    yield Sample(f"{name}_pool_capacity", text, most)
    open_: Values = {(): float(len(feeds))}
    yield Sample(f"{name}_active_subscribers", "Event streams that are read.", open_)
