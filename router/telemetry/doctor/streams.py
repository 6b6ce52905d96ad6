"""Event streams that are silent, lost, incomplete or told anew."""

from __future__ import annotations

from collections.abc import Iterator

from indexer.block import Trust
from indexer.feed import Feed
from indexer.storage import is_shared
from router.telemetry.decisions import Record
from router.telemetry.doctor.case import Case
from router.telemetry.doctor.finding import Finding

PARKED_S = 5.0
"""A parent that comes later comes at once, unless its message was missed."""

_REPLAY = (
    "give the engine a replay endpoint (vLLM: kv-events-config.replay_endpoint) and name it as "
    "kvEvents.replay in the endpoints file"
)


def without_source(case: Case) -> Iterator[Finding]:
    """Nobody reads an endpoint's events."""
    for prefix in case.prefixes:
        read = {feed.source.holder.address for feed in prefix.index.feeds()}
        read |= {source.holder.address for source in prefix.unusable()}
        for endpoint in case.endpoints:
            if prefix.zmq_endpoint or endpoint.address in read:
                continue
            yield Finding(
                code="no-event-source",
                about=endpoint.address,
                what="its KV events are not read, so nothing it holds is credited",
                evidence={"producer": prefix.name, "kvEvents": None},
                fix="give it kvEvents in the endpoints file, or wire an "
                "endpoint-notification-source to the producer",
            )


def unreached(case: Case) -> Iterator[Finding]:
    """No connection for its events ever came about."""
    for _, feed in case.feeds():
        if feed.stats.connections or feed.stats.messages:
            continue
        yield Finding(
            code="event-stream-unreached",
            about=_about(feed),
            what="nothing ever connected for its KV events",
            evidence={"endpoint": feed.source.endpoint, "connections": 0},
            fix="see that the engine publishes events there (vLLM: --kv-events-config with "
            "enable_kv_cache_events and publisher zmq) and that the port is open",
        )


def unusable(case: Case) -> Iterator[Finding]:
    """No socket can be made for an address."""
    for prefix in case.prefixes:
        for source, why in prefix.unusable().items():
            yield Finding(
                code="event-socket-unusable",
                about=source.holder.address,
                what=f"no socket can be made for its KV events: {why}",
                evidence={"endpoint": source.endpoint, "error": why},
                fix="correct the address of its kvEvents in the endpoints file",
            )


def lost(case: Case) -> Iterator[Finding]:
    """The connection broke and did not come back."""
    for _, feed in case.feeds():
        if feed.trust is not Trust.STALE:
            continue
        yield Finding(
            code="event-stream-lost",
            about=_about(feed),
            what="the connection for its KV events is lost, so nothing it holds is credited",
            evidence={
                "endpoint": feed.source.endpoint,
                "losses": feed.stats.losses,
                "connections": feed.stats.connections,
                "last_seq": feed.stats.last_seq,
                "silent_s": _silent_s(case, feed.stats.heard_at),
            },
            fix="see that the engine runs and its event port answers; with readable metrics the "
            "stream is trusted again after one scrape of the same process",
        )


def silent(case: Case) -> Iterator[Finding]:
    """A prompt was computed, and no event told of its blocks."""
    heard: dict[str, float] = {}
    sources: dict[str, str] = {}
    for _, feed in case.feeds():
        address = feed.source.holder.address
        if feed.trust is Trust.STALE or not feed.stats.connections or is_shared(feed.source.holder):
            continue  # told apart from silence
        heard[address] = max(heard.get(address, 0.0), feed.stats.heard_at or 0.0)
        sources[address] = feed.source.endpoint
    for address, heard_at in heard.items():
        untold = [_sent_at(r) for r in case.answered(address) if _stores(r)]
        untold = [at for at in untold if at > heard_at]
        if not untold or case.now - untold[0] < case.silence_s:
            continue
        yield Finding(
            code="no-events",
            about=address,
            what=f"no events for {case.now - max(heard_at, untold[0]):.0f} s, although it computed "
            f"{len(untold)} prompts since",
            evidence={
                "endpoint": sources[address],
                "last_event_s_ago": _silent_s(case, heard_at or None),
                "prompts_since": len(untold),
            },
            fix="see that prefix caching and KV events are on in the engine (vLLM: "
            "--kv-events-config) and that this address is its publisher's",
        )


def restarted(case: Case) -> Iterator[Finding]:
    """The engine's process is another one: its cache was empty."""
    begun: dict[str, int] = {}
    for _, feed in case.feeds():
        grown = case.grown(("restarts", feed.source), feed.stats.restarts)
        address = feed.source.holder.address
        begun[address] = begun.get(address, 0) + int(grown)
    for address, count in case.restarts.items():
        processes = int(case.grown(("process", address), count))
        begun[address] = max(begun.get(address, 0), processes)
    starts = {e.address: e.metrics.process_start for e in case.endpoints if e.metrics is not None}
    for address, times in sorted(begun.items()):
        if not times:
            continue
        started = starts.get(address)
        yield Finding(
            code="engine-restarted",
            about=address,
            what="the engine began anew, so what it had cached is gone",
            evidence={
                "times": times,
                "within_s": round(case.window_s),
                "up_for_s": None if started is None else round(case.now - started),
            },
            fix="see the engine's log for why it ended; its cache warms up again by itself",
        )


def gaps(case: Case) -> Iterator[Finding]:
    """Messages were missed and did not come again."""
    for _, feed in case.feeds():
        stats = feed.stats
        if feed.trust is not Trust.PARTIAL or not stats.missed:
            continue
        yield Finding(
            code="event-gaps",
            about=_about(feed),
            what=f"{stats.missed} messages of its events were missed and did not come again",
            evidence={
                "gaps": stats.gaps,
                "missed": stats.missed,
                "replayed": stats.replayed,
                "replays_failed": stats.replays_failed,
                "replay": feed.source.replay,
            },
            fix=_REPLAY
            if feed.source.replay is None
            else "raise the engine's buffer_steps and "
            "hwm of its kv-events-config: it no longer had what was asked for",
        )


def joined_late(case: Case) -> Iterator[Finding]:
    """The stream was read from the middle on."""
    for _, feed in case.feeds():
        stats = feed.stats
        if feed.trust is not Trust.PARTIAL or feed.order.next is None or stats.missed:
            continue
        if feed.unnamed or feed.rejected:
            continue  # partial for what was left out
        if not stats.truncated and not stats.replays_failed and feed.source.replay is not None:
            continue  # a replay is under way
        yield Finding(
            code="events-joined-late",
            about=_about(feed),
            what="what it stored before the router listened is not known",
            evidence={
                "messages": stats.messages,
                "last_seq": stats.last_seq,
                "replay": feed.source.replay,
                "replays_failed": stats.replays_failed,
                "truncated": stats.truncated,
            },
            fix=_REPLAY
            if feed.source.replay is None
            else "raise the engine's buffer_steps: it no longer had its first messages",
        )


def orphans(case: Case) -> Iterator[Finding]:
    """Blocks wait for a parent that does not come."""
    for prefix in case.prefixes:
        for holder, ledger in prefix.index.ledgers.items():
            waited_s = case.lasting_s(("parked", prefix.name, holder))
            if not ledger.parked_blocks or waited_s < PARKED_S:
                continue
            yield Finding(
                code="parked-blocks",
                about=holder.address,
                what=f"{ledger.parked_blocks} of its blocks follow one that no event told of",
                evidence={"parked_blocks": ledger.parked_blocks, "waiting_s": round(waited_s)},
                fix=_REPLAY,
            )


def _stores(record: Record) -> bool:
    """The engine had to compute at least one whole block that it did not hold."""
    if not record.block_size:
        return False
    whole = record.total_blocks * record.block_size
    cached = record.predicted_cached_tokens or 0
    # The block with the last token is computed again, but stored before.
    return whole - cached > record.block_size


def _sent_at(record: Record) -> float:
    """What the engine stored of it was told later than that."""
    return record.at + record.took_ms / 1e3


def _silent_s(case: Case, heard_at: float | None) -> int | None:
    return None if heard_at is None else round(case.now - heard_at)


def _about(feed: Feed) -> str:
    holder = feed.source.holder
    return f"{holder.address} rank {holder.rank}" if holder.rank else holder.address
