from __future__ import annotations

from typing import Any

import msgspec
import pytest

from indexer.block import Holder
from indexer.conductor import registry as module
from indexer.conductor.registry import Key, Outcome, Registration, Registry, host_of, registration
from indexer.conductor.wire import Malformed, Register
from indexer.events import Change, PoolTold
from indexer.pooling import Pooling
from indexer.prefix_index import PrefixIndex
from tests.indexer.conductor.api import registering

A, B = "tcp://10.0.0.1:5557", "tcp://10.0.0.2:5557"


def made(instance: str = "a", rank: int = 0, **fields: Any) -> Registration:
    return registration(msgspec.convert(registering(instance, rank, **fields), Register))


def engine(instance: str = "a", rank: int = 0, npu: str = A, **fields: Any) -> Registration:
    return made(instance, rank, medium_endpoints={"npu": npu}, **fields)


def arranged(*registrations: Registration) -> Pooling:
    registry, pooling = Registry(), Pooling(PrefixIndex(128).blocks)
    for each in registrations:
        registry.add(each)
    registry.arrange(pooling, 128)
    return pooling


def members(pooling: Pooling, pool: Registration, node: str | None, rank: int | None = None) -> Any:
    told = PoolTold(Change.STORED, [1], "cpu", node, rank)
    return pooling.members[pool.holder](told)


def test_a_registration_is_told_by_tenant_instance_and_rank() -> None:
    registry = Registry()
    assert registry.add(engine()) is Outcome.ADDED
    assert registry.add(engine()) is Outcome.DUPLICATE
    assert registry.add(engine(rank=1)) is Outcome.ADDED
    assert registry.add(engine(tenant_id="acme")) is Outcome.ADDED
    assert registry.add(engine(npu=B)) is Outcome.REPLACED
    assert registry.remove(Key("default", "a", 0)) == engine(npu=B)
    assert registry.remove(Key("default", "a", 0)) is None
    assert len({each.holder for each in registry}) == len(list(registry)) == 2


def test_registrations_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_REGISTRATIONS", 1)
    registry = Registry()
    registry.add(engine())
    assert registry.add(engine(npu=B)) is Outcome.REPLACED
    with pytest.raises(Malformed, match="1 are registered already"):
        registry.add(engine("b"))


def test_each_address_is_one_stream() -> None:
    (one,) = engine(replay_endpoint=B).sources()
    assert (one.endpoint, one.replay, one.tiers, one.base_model) == (A, B, (), "m")
    media = {"npu": A, "cpu": B, "disk": B}
    npu, lower = made(medium_endpoints=media, replay_endpoint=A).sources()
    assert (npu.tiers, lower.endpoint, lower.tiers) == ((), B, ("cpu", "disk"))
    assert (npu.replay, lower.replay) == (A, None)
    (all_in_one,) = made(medium_endpoints={"npu": A, "cpu": A}).sources()
    assert all_in_one.tiers == ()
    assert list(made().sources()) == []


def test_an_address_alone_is_that_of_a_pool() -> None:
    pool = made("p", endpoint=A)
    assert pool.is_pool
    (source,) = pool.sources()
    assert (source.tiers, source.holder) == (("cpu", "disk"), pool.holder)
    assert not made("p", endpoint=A, store_backend="Other").is_pool
    assert not engine(endpoint=B).is_pool


def test_a_pool_s_event_is_of_all_ranks_on_its_node_or_of_the_one_it_names() -> None:
    pool = made("p", endpoint="tcp://10.9.9.9:5557")
    ranks = [engine("a", 0), engine("a", 1, "tcp://10.0.0.1:5558"), engine("b", 0, B)]
    pooling = arranged(pool, *ranks)
    here = [ranks[0].holder, ranks[1].holder]
    assert members(pooling, pool, "10.0.0.1") == here
    assert members(pooling, pool, "10.0.0.1:7000") == here
    assert members(pooling, pool, "10.0.0.1", 1) == [ranks[1].holder]
    assert members(pooling, pool, "10.0.0.1", 7) == here
    assert members(pooling, pool, "10.0.0.2") == [ranks[2].holder]
    assert members(pooling, pool, "10.0.0.3") == ()
    assert members(pooling, pool, None) == ()


def test_a_pool_on_a_node_of_engines_tells_nothing_of_them_where_it_names_another() -> None:
    pool = made("p", endpoint=A)
    pooling = arranged(pool, engine("a"))
    assert members(pooling, pool, "10.0.0.3") == ()
    assert members(pooling, pool, None) == ()


def test_an_event_may_name_its_tenant() -> None:
    pool = made("p", endpoint=A)
    ours, theirs = engine("a"), engine("a", tenant_id="acme")
    pooling = arranged(pool, ours, theirs)
    told = PoolTold(Change.STORED, [1], "cpu", "10.0.0.1", tenant="acme")
    assert pooling.members[pool.holder](told) == [theirs.holder]


def test_a_pool_is_for_the_engines_of_its_tenant_backend_and_block_size() -> None:
    pool = made("p", endpoint=A)
    others = [
        engine("b", tenant_id="acme"),
        engine("c", store_backend="Memcache"),
        engine("d", block_size=16),
    ]
    pooling = arranged(pool, engine("a"), *others)
    assert members(pooling, pool, "10.0.0.1") == [engine("a").holder]
    assert pooling.elsewhere == {engine("a").holder: frozenset({"cpu", "disk"})}


def test_a_node_s_own_pool_tells_of_that_node_only() -> None:
    pool = made("p", medium_endpoints={"cpu": A}, store_backend="YuanRong")
    here = engine("a", store_backend="YuanRong")
    there = engine("b", npu=B, store_backend="whatever")
    pooling = arranged(pool, here, there)
    assert members(pooling, pool, None) == [here.holder]
    assert pooling.elsewhere == {here.holder: frozenset({"cpu"})}


def test_ports_of_lower_tiers_have_the_last_word_on_them() -> None:
    own = made(medium_endpoints={"npu": A, "cpu": B, "disk": A}, store_backend="YuanRong")
    assert arranged(own).elsewhere == {own.holder: frozenset({"cpu"})}


@pytest.mark.parametrize(
    "media",
    [{"tape": A}, {"": A}, {"npu": A, "hbm": B}, {"npu": "tcp://*:1"}, {"npu": "tcp://a:0"}],
)
def test_media_and_addresses_must_make_sense(media: dict[str, str]) -> None:
    with pytest.raises(Malformed):
        made(medium_endpoints=media)


def test_hosts_are_compared_in_one_spelling() -> None:
    assert host_of("tcp://[::1]:5557") == host_of("tcp://[0:0:0:0:0:0:0:1]:1") == "::1"
    assert host_of("tcp://Node-1:5557") == "node-1"


def test_a_holder_is_no_shared_storage_whatever_its_tenant_is_called() -> None:
    key = Key("SHARED_STORAGE@m", "a", 0)
    assert key.holder == Holder("conductor:SHARED_STORAGE@m/a")
    index = PrefixIndex(128, pools=True)
    assert index.ledger(key.holder).holder == key.holder
    assert not index.blocks.traits.is_shared(key.holder)
