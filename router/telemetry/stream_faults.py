"""What is wrong with an index's input, in a few words each: for `/readyz` and `/debug/state`."""

from __future__ import annotations

from collections.abc import Iterator

from indexer.block import Holder, Trust
from indexer.central import Central
from indexer.conductor.registry import REGISTERED
from indexer.events import Reason
from indexer.feed import Feed
from indexer.ledger import Ledger
from indexer.storage import is_shared
from router.producers.prefix import PrecisePrefix

_SHOWN = 4
"""Topics and addresses that are named; all of them stand in `/debug/state`."""

_UNFIT = Reason.BLOCK_SIZE_MISMATCH


def faults(prefix: PrecisePrefix) -> Iterator[str]:
    """Of all streams, of what they told, and of what belongs to none of them."""
    feeds = prefix.index.feeds()
    heard = {feed.source.holder for feed in feeds if feed.order.next is not None}
    for feed in feeds:
        # An engine either listens or connects, and may be expected both ways.
        if feed.order.next is not None or feed.source.holder not in heard:
            yield from (f"{_name(feed.source.holder)}: {fault}" for fault in of_stream(feed))
    for holder, ledger in prefix.index.ledgers.items():
        for fault in of_engine(ledger, prefix.index.block_size):
            yield f"{_name(holder)}: {fault}"
        size, sent = prefix.index.block_size, ledger.block_size
        if prefix.same_size and sent not in (None, size):
            yield f"{_name(holder)}: block_size is {size}, and it sends blocks of {sent}"
    for source, why in prefix.unusable().items():
        yield f"{_name(source.holder)}: no socket for {source.endpoint}: {why}"
    if prefix.central is not None:
        yield from _of_central(prefix.central)


def of_stream(feed: Feed) -> Iterator[str]:
    """Why less is known by a stream than could be."""
    stats = feed.stats
    if feed.trust is Trust.STALE:
        yield "its event stream is lost"
    elif not (stats.connections or stats.messages):
        yield f"nothing connected yet for its events, {feed.source.endpoint}"
    elif feed.trust is Trust.PARTIAL and feed.order.next is not None:
        yield f"its event stream is partial: {_why_partial(feed)}"
    if feed.unwanted is not None:
        count, topic = feed.rejected[Reason.FILTERED], feed.unwanted.decode("utf-8", "replace")
        wanted = feed.source.topic_filter
        yield f"{count} messages left out: topic {topic!r} does not start with {wanted!r}"
    if feed.unnamed:
        yield f"{feed.unnamed} messages wait: neither topic nor endpoint names their model"


def of_engine(ledger: Ledger, block_size: int) -> Iterator[str]:
    """Why less is credited than an engine told."""
    unfit = sorted(s for s in ledger.sizes if s % block_size and block_size % s)
    if ledger.refused is _UNFIT or (unfit and ledger.rejected[_UNFIT]):
        sizes = ", ".join(map(str, unfit or sorted(ledger.sizes)))
        yield f"its blocks of {sizes} tokens do not fit the index's of {block_size}"
    elif ledger.refused is not None:
        yield f"its KV cache groups cannot be judged: {ledger.refused}"
    if ledger.dropped_blocks:
        yield f"no room in the index for {ledger.dropped_blocks} of its blocks"


def _why_partial(feed: Feed) -> str:
    stats = feed.stats
    causes = [f"{n} left out as {reason}" for reason, n in feed.rejected.items() if n]
    if stats.missed:
        causes.append(f"{stats.missed} messages were missed")
    if stats.replays_failed:
        causes.append("the engine does not replay")
    if stats.truncated:
        causes.append("the engine no longer had the oldest")
    return ", ".join(causes) or "joined late, and the engine is not asked to replay"


def _of_central(central: Central) -> Iterator[str]:
    if central.unknown:
        yield f"kv events: addresses of no endpoint: {_some(central.unknown)}"
    if central.topics:
        quoted = {repr(topic): count for topic, count in central.topics.items()}
        yield f"kv events: topics that are left out: {_some(quoted)}"


def _some(counts: dict[str, int]) -> str:
    shown = [f"{what} ({count})" for what, count in list(counts.items())[:_SHOWN]]
    if len(counts) > _SHOWN:
        shown.append(f"{len(counts) - _SHOWN} more")
    return ", ".join(shown)


def _name(holder: Holder) -> str:
    if is_shared(holder):
        return f"storage {holder.address}"
    if holder.address.startswith(REGISTERED):
        return f"instance {holder.address.removeprefix(REGISTERED)} rank {holder.rank}"
    return f"endpoint {holder.address}" + (f" rank {holder.rank}" if holder.rank else "")
