"""Central: the streams of engines that connect to one socket of ours, told apart by their topics.

A topic is `kv@ADDRESS@MODEL`. All ranks behind one address publish under the same topic, each with
numbers of its own, so the rank in a message tells which stream it belongs to. In place of an
address may stand a name of storage that all endpoints of the model share. What belongs to neither
is counted, and its address remembered for people.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple

from indexer import frames
from indexer.engines import vllm
from indexer.events import Batch, Reason
from indexer.feed import Feed, Source
from indexer.prefix_index import PrefixIndex

MAX_STREAMS = 4096
"""Senders told apart."""
MAX_UNKNOWN = 32
"""Addresses of no endpoint, and topics left out, that are remembered."""
MAX_TOPIC_BYTES = 256
"""Of a topic that is remembered."""


class Key(NamedTuple):
    """What a message says of its sender: address and model in the topic, rank in the payload."""

    address: str
    model: str
    rank: int


Locate = Callable[[Key], Source | None]
"""Tells whose events these are; None where nobody knows."""


class Central:
    """
    Attributes:
        rejected: Messages that belong to no stream, by reason.
        topics: Topic that is left out, whatever it is → messages under it.
        unknown: Address that is no endpoint's → messages under it.
    """

    def __init__(
        self,
        index: PrefixIndex,
        locate: Locate,
        topic_filter: str,
        decode: Callable[[bytes], Batch] = vllm.decode,
    ) -> None:
        self.rejected: Counter[Reason] = Counter()
        self.unknown: dict[str, int] = {}
        self.topics: dict[str, int] = {}
        self._index = index
        self._locate = locate
        self._filter = topic_filter.encode()
        self._decode = decode
        self._feeds: dict[Key, Feed] = {}
        self._sources: dict[Key, Source] = {}
        self._connections: dict[Feed, int] = {}

    @property
    def feeds(self) -> Iterable[Feed]:
        return self._feeds.values()

    def receive(self, parts: Sequence[bytes], wall_s: float, connection: int) -> None:
        """Take in one message that came over a connection."""
        fault = frames.fault_of(parts)
        if fault is not None:
            self._reject(fault)
            return
        topic = parts[0]
        told = frames.address_and_model(topic)
        if not topic.startswith(self._filter):
            self._leave_out(topic, Reason.FILTERED)
        elif told is None:
            self._leave_out(topic, Reason.BAD_TOPIC)
        else:
            batch = self._decode(parts[2])
            feed = self.open(Key(*told, batch.rank or 0))
            if feed is None:
                self._count_unknown(told[0])
            else:
                self._follow(feed, connection)
                feed.receive(parts, wall_s, batch)

    def open(self, key: Key) -> Feed | None:
        """The stream that is meant; None if there is no such."""
        feed = self._feeds.get(key)
        if feed is None and len(self._feeds) < MAX_STREAMS:
            source = self._locate(key)
            if source is None:
                return None
            feed = next((f for k, f in self._feeds.items() if self._sources[k] == source), None)
            feed = feed or self._index.open(source)
            self._feeds[key], self._sources[key] = feed, source
        return feed

    def broke(self, connection: int) -> list[Feed]:
        """A connection is gone; returns the streams that came over it."""
        lost = [feed for feed, used in self._connections.items() if used == connection]
        for feed in lost:
            del self._connections[feed]
            feed.lost()
        return lost

    def sync(self) -> list[Feed]:
        """End the streams whose address means another endpoint now, or none; returns them."""
        ended: list[Feed] = []
        for key, source in list(self._sources.items()):
            if self._locate(key) != source:
                ended.append(self._feeds.pop(key))
                del self._sources[key]
        for address in [a for a in self.unknown if self._locate(Key(a, "", 0))]:
            del self.unknown[address]
        ended = [feed for feed in dict.fromkeys(ended) if feed not in self._feeds.values()]
        for feed in ended:
            self._connections.pop(feed, None)
            self._index.close(feed)
        return ended

    def close(self) -> None:
        """End all streams."""
        for feed in set(self._feeds.values()):
            self._index.close(feed)
        self._feeds.clear()
        self._sources.clear()
        self._connections.clear()

    def _follow(self, feed: Feed, connection: int) -> None:
        if self._connections.get(feed) != connection:
            self._connections[feed] = connection
            feed.connected()

    def _count_unknown(self, address: str) -> None:
        self._reject(Reason.UNKNOWN_ENDPOINT)
        _remember(self.unknown, address)

    def _leave_out(self, topic: bytes, reason: Reason) -> None:
        self._reject(reason)
        _remember(self.topics, topic[:MAX_TOPIC_BYTES].decode("utf-8", "replace"))

    def _reject(self, reason: Reason) -> None:
        self.rejected[reason] += 1
        self._index.reject(reason)


def _remember(seen: dict[str, int], what: str) -> None:
    if what in seen or len(seen) < MAX_UNKNOWN:
        seen[what] = seen.get(what, 0) + 1
