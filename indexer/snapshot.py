"""Snapshot: what the index knew, as bytes to keep, and back into another process's index.

It says of each stream where it was in the engine's sequence and when the engine's process had
started. What is restored is credited only once the engine is proven to be that process, by its
metrics, by what it replays or, where it tells no start, by the number of its next message. Until
then it is kept on as it was.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec
import xxhash

from indexer import dump
from indexer.block import Holder, Trust
from indexer.dump import Copy, Rows
from indexer.feed import Feed
from indexer.kept_pieces import CopiedPieces
from indexer.outline import Outline
from indexer.prefix_index import PrefixIndex
from indexer.story import Restored

FORMAT = 3
MAGIC = b"warmroute index\n"
MAX_AGE_S = 900.0
"""After so long an engine that works has replaced most of what it had."""

_DIGEST_BYTES = 16


class NotUsable(Exception):
    """A snapshot that is left alone; says why in a few words."""


class Stream(msgspec.Struct, frozen=True):
    """Where a stream was.

    Attributes:
        address: Its holder's.
        rank: Its holder's.
        endpoint: ZMQ address that it was read from.
        models: Models its events were taken for.
        outline: What is known of the engine beside its blocks.
        was: How far it was, of which process.
    """

    address: str
    rank: int
    endpoint: str
    models: Sequence[str]
    outline: Outline
    was: Restored


class Snapshot(msgspec.Struct, frozen=True):
    """
    Attributes:
        written_at: Seconds since the epoch.
        block_size: Tokens per block of the index.
        streams: One per holder; rows refer to them by position.
    """

    written_at: float
    block_size: int
    streams: Sequence[Stream]
    rows: Sequence[Rows]


class Taken(msgspec.Struct):
    """A snapshot before its blocks are made rows of."""

    block_size: int
    streams: Sequence[Stream]
    pieces: Sequence[CopiedPieces]
    blocks: Copy


def take(index: PrefixIndex, process_start: Callable[[str], float | None]) -> Taken:
    """Copy what can be restored; `process_start` tells when the engine at an address started."""
    streams: dict[Holder, Stream] = {}
    for feed in index.feeds():
        stream = _stream(index, feed, process_start(feed.source.holder.address))
        if stream is not None:
            streams[feed.source.holder] = stream
    blocks = dump.copy(index.blocks, streams)
    order = dict.fromkeys((*blocks.holders, *streams))  # those without blocks come last
    pieces = [index.ledgers[holder].copy_pieces() for holder in order]
    return Taken(index.block_size, [streams[holder] for holder in order], pieces, blocks)


def encode(taken: Taken, written_at: float) -> bytes:
    """Takes long for a large index, and touches nothing of it."""
    rows = list(dump.rows(taken.blocks))
    streams = list(map(_whole, taken.streams, taken.pieces))
    body = msgspec.msgpack.encode(Snapshot(written_at, taken.block_size, streams, rows))
    return MAGIC + bytes([FORMAT]) + xxhash.xxh3_128_digest(body) + body


def _whole(stream: Stream, pieces: CopiedPieces) -> Stream:
    outline = msgspec.structs.replace(stream.outline, pieces=pieces.kept())
    return msgspec.structs.replace(stream, outline=outline)


def decode(data: bytes, block_size: int, now: float) -> Snapshot:
    """Raises NotUsable."""
    head = len(MAGIC) + 1
    if data[: len(MAGIC)] != MAGIC:
        raise NotUsable("not a snapshot")
    if data[len(MAGIC) : head] != bytes([FORMAT]):
        raise NotUsable("another format")
    body = data[head + _DIGEST_BYTES :]
    if xxhash.xxh3_128_digest(body) != data[head : head + _DIGEST_BYTES]:
        raise NotUsable("damaged")
    try:
        snapshot = msgspec.msgpack.decode(body, type=Snapshot)
    except msgspec.DecodeError as error:
        raise NotUsable(f"damaged: {error}") from error
    if snapshot.block_size != block_size:
        raise NotUsable(f"made with blocks of {snapshot.block_size} tokens")
    if not 0 <= now - snapshot.written_at <= MAX_AGE_S:
        raise NotUsable(f"{now - snapshot.written_at:.0f} s old")
    return snapshot


def restore(index: PrefixIndex, snapshot: Snapshot, feeds: Mapping[int, Feed]) -> int:
    """Put back what belongs to these streams, by position; returns their number.

    They must be open, and nothing may have been heard over them.
    """
    holders = {position: feed.source.holder for position, feed in feeds.items()}
    full: set[int] = set()
    for rows in snapshot.rows:
        if not dump.load(index.blocks, holders, rows):
            full.update(rows.holders)
    if index.pooling is not None:
        # Whoever keeps these tiers went on, and does not tell what became of them.
        for holder in holders.values():
            for tier in index.pooling.elsewhere.get(holder, ()):
                index.blocks.clear_tier(holder, tier)
    for position, feed in feeds.items():
        stream = snapshot.streams[position]
        was = stream.was
        was = msgspec.structs.replace(
            was,
            complete=was.complete and position not in full,
            heard_until=_heard_until(snapshot, stream),
        )
        feed.restore(was, stream.models, stream.outline)
    return len(feeds)


def matching(snapshot: Snapshot, feeds: Sequence[Feed]) -> Mapping[int, Feed]:
    """The open streams that are those of a snapshot, by position there."""
    found: dict[tuple[Holder, str], Feed] = {
        (feed.source.holder, feed.source.endpoint): feed
        for feed in feeds
        if feed.order.next is None and not feed.source.shared
    }
    return {
        position: feed
        for position, stream in enumerate(snapshot.streams)
        if snapshot.written_at - _heard_until(snapshot, stream) <= MAX_AGE_S
        and (feed := found.get((Holder(stream.address, stream.rank), stream.endpoint)))
    }


def _heard_until(snapshot: Snapshot, stream: Stream) -> float:
    until = stream.was.heard_until
    return snapshot.written_at if until is None else until


def _stream(index: PrefixIndex, feed: Feed, process_start: float | None) -> Stream | None:
    """What to say of a stream; None where its blocks could not be gone on with."""
    source, progress, outline = feed.source, feed.order.progress, index.outline(feed.source.holder)
    if (
        source.shared
        or source.tiers
        or (feed.trust is Trust.STALE and feed.restored is None)
        or outline is None
        or progress is None
    ):
        return None
    state = index.state(source.holder)
    pooled = index.pooling is not None and source.holder in index.pooling.elsewhere
    lacks = state.parked_blocks or state.dropped_blocks or outline.speaks_of_others or pooled
    was = Restored(progress, feed.is_complete and not lacks, process_start)
    if feed.restored is not None:
        was = msgspec.structs.replace(feed.restored, progress=progress, complete=was.complete)
    return Stream(
        address=source.holder.address,
        rank=source.holder.rank,
        endpoint=source.endpoint,
        models=sorted(feed.models),
        outline=outline,
        was=was,
    )
