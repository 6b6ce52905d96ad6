from __future__ import annotations

from typing import Any

import msgspec
import pytest

from indexer.block import Holder, Identity
from indexer.events import BlockStored, Change, PoolTold
from indexer.feed import Source
from indexer.hashing import pack
from indexer.pooling import Pooling
from indexer.prefix_index import PrefixIndex
from router.config.motor_schema import MediaPorts
from router.pool.endpoint import Endpoint, KvEvents
from router.producers.media_sources import MediaSources
from tests.support import make

A = make.endpoint("10.0.0.1:8000")
A1 = make.endpoint("10.0.0.1:8001", rank=1)
B = make.endpoint("[::1]:8000")
POOL = Holder("pool:mooncake")


class Bench:
    def __init__(self, **media: Any) -> None:
        self.pooling = Pooling(PrefixIndex(128).blocks)
        self.media = MediaSources(MediaPorts(**media), self.pooling)

    def follow(self, *endpoints: Endpoint) -> list[Source]:
        return list(self.media.follow(endpoints))

    def members(self, node: str | None, rank: int | None = None) -> list[Holder]:
        told = PoolTold(Change.STORED, [1], "cpu", node, rank)
        return list(self.pooling.members[POOL](told))


def test_each_rank_has_ports_of_its_own() -> None:
    bench = Bench(cpu=5700, disk=5800, backend="yuanrong")
    told = [(s.holder, s.endpoint, s.tiers) for s in bench.follow(A, A1)]
    first, second = Holder(A.address), Holder(A1.address, 1)
    assert told == [
        (first, "tcp://10.0.0.1:5700", ("cpu",)),
        (first, "tcp://10.0.0.1:5800", ("disk",)),
        (second, "tcp://10.0.0.1:5701", ("cpu",)),
        (second, "tcp://10.0.0.1:5801", ("disk",)),
    ]
    assert bench.pooling.elsewhere == dict.fromkeys((first, second), frozenset({"cpu", "disk"}))


def test_one_port_for_both_is_one_stream() -> None:
    (stream,) = Bench(cpu=5700, disk=5700).follow(B)
    assert (stream.endpoint, stream.tiers) == ("tcp://[::1]:5700", ("cpu", "disk"))


def test_a_pool_tells_of_all_ranks_on_the_node_it_names() -> None:
    bench = Bench(pool="tcp://10.9.9.9:5600")
    (stream,) = bench.follow(A, A1, B)
    assert (stream.holder, stream.endpoint) == (POOL, "tcp://10.9.9.9:5600")
    here = [Holder(A.address), Holder(A1.address, 1)]
    assert bench.members("10.0.0.1") == bench.members("10.0.0.1:7000") == here
    assert bench.members("10.0.0.1", 1) == here[1:]
    assert bench.members("0:0:0:0:0:0:0:1") == [Holder(B.address)]
    assert bench.members("10.0.0.7") == bench.members(None) == []


def test_ranks_behind_one_port_are_all_there() -> None:
    bench = Bench(pool="tcp://10.9.9.9:5600")
    events = tuple(KvEvents(endpoint=f"tcp://10.0.0.1:{5557 + r}", rank=r) for r in range(2))
    bench.follow(make.endpoint("10.0.0.1:8000", kv_events=events))
    assert bench.members("10.0.0.1") == [Holder("10.0.0.1:8000", r) for r in range(2)]


def test_without_any_there_is_nothing_to_follow() -> None:
    bench = Bench()
    assert bench.follow(A) == []
    assert (bench.pooling.elsewhere, bench.pooling.members) == ({}, {})


@pytest.mark.parametrize("media", [{"pool": "tcp://10.9.9.9:5600"}, {"cpu": 5700}], ids=str)
def test_what_is_told_there_counts_for_the_engine(media: dict[str, Any]) -> None:
    index = PrefixIndex(16, pools=True)
    assert index.pooling is not None
    sources = MediaSources(MediaPorts(**media), index.pooling)
    (below,) = [index.open(source) for source in sources.follow([A])]
    below.base_model = "m"
    tokens, names = list(range(64)), [11, 12, 13, 14]
    given = BlockStored(names, None, pack(tokens), 16, tier="cpu")
    index.ledger(Holder(A.address)).apply(given, "m")
    told = {"event_type": "stored", "seq_hashes": names[:3], "backend_id": "10.0.0.1"}
    below.receive([b"", bytes(8), msgspec.msgpack.encode([0, [told], 0])], 1.0)
    (match,) = index.match([Identity("m")], pack(tokens), 0.0).matches.values()
    assert match.tiers == {"cpu": 3}
