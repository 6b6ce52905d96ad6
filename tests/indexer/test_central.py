"""One socket for all engines: whose events a topic means, and what is dropped because of it."""

from __future__ import annotations

from indexer.block import Holder, Trust
from indexer.central import MAX_UNKNOWN, Central, Key
from indexer.events import Reason
from indexer.feed import Source
from indexer.hashing import pack
from indexer.prefix_index import PrefixIndex
from tests.indexer import make
from tests.indexer.make import BASE, E1, E2

ENDPOINT = "tcp://*:5557"


class Bench:
    """Endpoints by address, and streams that come over connections."""

    def __init__(self, *known: Holder, topic_filter: str = "kv@") -> None:
        self.index = PrefixIndex(16)
        self.known = {holder.address for holder in known}
        self.central = Central(self.index, self.locate, topic_filter)

    def locate(self, key: Key) -> Source | None:
        if key.address == "SHARED_STORAGE":
            return Source(Holder(f"SHARED_STORAGE@{key.model}"), ENDPOINT, unordered=True)
        address = E1.address if key.address == "alias" else key.address
        return Source(Holder(address, key.rank), ENDPOINT) if address in self.known else None

    def hear(
        self, seq: int, *events: object, of: str = E1.address, rank: int | None = 0, link: int = 1
    ) -> None:
        parts = make.frames(seq, *events, topic=f"kv@{of}@tiny".encode(), rank=rank)
        self.central.receive(parts, 1.0, link)

    def blocks(self) -> dict[Holder, int]:
        lookup = self.index.match([BASE], pack(make.prompt()), 0.0)
        return {holder: match.blocks for holder, match in lookup.matches.items()}


def test_the_topic_tells_whose_events_they_are() -> None:
    bench = Bench(E1, E2)
    bench.hear(0, make.stored())
    bench.hear(0, make.stored(make.NAMES[:2]), of=E2.address, link=2)
    assert bench.blocks() == {E1: 4, E2: 2}
    assert {bench.index.trust(E1), bench.index.trust(E2)} == {Trust.EXACT}


def test_ranks_behind_one_address_have_numbers_of_their_own() -> None:
    bench = Bench(E1)
    for seq in range(3):
        bench.hear(seq, make.stored(make.NAMES[: seq + 1]), rank=0, link=1)
        bench.hear(seq, rank=1, link=2)
    bench.hear(3, make.stored(), rank=1, link=2)
    second = Holder(E1.address, 1)
    assert bench.blocks() == {E1: 3, second: 4}
    assert {feed.trust for feed in bench.index.feeds()} == {Trust.EXACT}


def test_two_spellings_of_one_endpoint_are_one_stream() -> None:
    bench = Bench(E1)
    bench.hear(0, make.stored(make.NAMES[:2]))
    bench.hear(1, make.removed(make.NAMES[1:2]), of="alias")
    assert (bench.blocks(), len(bench.index.feeds())) == ({E1: 1}, 1)
    assert bench.central.sync() == []
    bench.central.close()
    assert bench.index.feeds() == ()


def test_what_belongs_to_no_stream_is_counted_by_reason_and_its_address_shown() -> None:
    bench = Bench(E1)
    for topic in (b"kv@10.9.9.9:1@tiny", b"kv@10.9.9.9:1@tiny", b"kv@tiny", b"other", b""):
        bench.central.receive(make.frames(0, make.stored(), topic=topic), 1.0, 1)
    bench.central.receive([b"kv@a@b"], 1.0, 1)
    assert bench.central.rejected == {
        Reason.UNKNOWN_ENDPOINT: 2,
        Reason.BAD_TOPIC: 1,
        Reason.FILTERED: 2,
        Reason.BAD_FRAMES: 1,
    }
    assert bench.index.stats().rejected == bench.central.rejected
    assert bench.central.unknown == {"10.9.9.9:1": 2}
    assert (bench.blocks(), bench.index.feeds()) == ({}, ())


def test_addresses_of_no_endpoint_are_remembered_up_to_a_bound_until_they_are_known() -> None:
    bench = Bench()
    for number in range(MAX_UNKNOWN + 5):
        bench.hear(0, of=f"10.0.0.{number}:1")
    assert len(bench.central.unknown) == MAX_UNKNOWN
    bench.known.add("10.0.0.3:1")
    bench.central.sync()
    assert "10.0.0.3:1" not in bench.central.unknown


def test_an_endpoint_that_is_gone_has_no_stream_and_what_it_says_changes_nothing() -> None:
    bench = Bench(E1)
    bench.hear(0, make.stored())
    (feed,) = bench.index.feeds()
    bench.known.clear()
    assert bench.central.sync() == [feed]
    bench.hear(1, make.stored())
    assert (bench.blocks(), bench.index.feeds()) == ({}, ())
    bench.known.add(E1.address)
    bench.hear(2, make.stored([9], make.prompt(1, 640)))
    assert (bench.blocks(), bench.index.trust(E1)) == ({}, Trust.PARTIAL)


def test_a_connection_that_breaks_makes_its_streams_stale_and_no_others() -> None:
    bench = Bench(E1, E2)
    bench.hear(0, make.stored())
    bench.hear(0, make.stored(), of=E2.address, link=2)
    assert [feed.source.holder for feed in bench.central.broke(1)] == [E1]
    assert (bench.blocks(), bench.index.trust(E1)) == ({E2: 4}, Trust.STALE)
    bench.hear(1, link=3)
    assert (bench.blocks(), bench.index.trust(E1)) == ({E1: 4, E2: 4}, Trust.EXACT)
    assert bench.central.broke(1) == []


def test_a_stream_whose_publisher_says_where_to_ask_is_replayed_from_its_start() -> None:
    index = PrefixIndex(16)
    central = Central(index, lambda _: Source(E1, ENDPOINT, replay="tcp://x:1"), "kv@")
    central.receive(make.frames(4, make.stored()), 1.0, 1)
    (feed,) = index.feeds()
    assert (feed.catch_up.wants, feed.trust) == (0, Trust.PARTIAL)


def test_several_publishers_of_shared_storage_do_not_disturb_each_other() -> None:
    bench = Bench(E1)
    for seq, link in ((7, 1), (3, 2), (8, 1), (1, 3)):
        bench.hear(seq, make.stored([seq], make.prompt(1, seq)), of="SHARED_STORAGE", link=link)
    (feed,) = bench.index.feeds()
    assert (feed.stats.events, feed.stats.restarts, feed.trust) == (4, 0, Trust.PARTIAL)
    bench.central.broke(1)
    assert feed.trust is Trust.PARTIAL
