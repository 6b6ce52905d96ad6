"""A conductor over an index that others fill too, and its bounds."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import msgspec
import pytest

from indexer.block import Holder, Identity
from indexer.conductor.conductor import MAX_BLOCK_SIZES, Conductor, NotFound
from indexer.conductor.fleet import Known
from indexer.conductor.wire import Events, Malformed, Query, Register
from indexer.conductor.workers import faults, workers
from indexer.events import BlockStored
from indexer.hashing import pack
from indexer.prefix_index import PrefixIndex
from tests.indexer.conductor.api import SIZE, query, registering, tokens

POD = Holder("10.0.0.1:8000")


class OnePod:
    """A fleet of one engine that serves a model under two names."""

    def known(self, tenant: str, model: str) -> Known | None:
        if (tenant, model) not in {("default", "m"), ("default", "alias")}:
            return None
        return Known([Identity("m")], {POD: ("pod", 0)})

    def instances(self) -> Iterator[Mapping[str, Any]]:
        yield {"instance_id": "pod"}


def conductor() -> Conductor:
    index = PrefixIndex(SIZE, pools=True)
    index.ledger(POD).apply(BlockStored([1, 2], None, pack(tokens(2)), SIZE), "m")
    return Conductor(lambda size: PrefixIndex(size, pools=True), index, OnePod())


def asked(**fields: Any) -> Query:
    return msgspec.convert(query(**fields), Query)


def registered(**fields: Any) -> Register:
    return msgspec.convert(registering(**fields), Register)


def test_engines_that_did_not_register_answer_beside_those_that_did() -> None:
    both = conductor()
    both.register(registered())
    event = {"data": {"type": "stored", "token_ids": tokens(1), "block_hashes": [9]}}
    both.events(Events("vllm-prefill-1", [event]))
    (tenant,) = both.query(asked()).values()
    assert {name: instance.longest_matched for name, instance in tenant.items()} == {
        "pod": 256,
        "vllm-prefill-1": 128,
    }
    assert list(both.query(asked(model="alias"))["default"]) == ["pod"]


def test_another_block_size_is_another_index() -> None:
    both = conductor()
    assert both.query(asked(block_size=16)) == {"default": {}}
    both.register(registered(block_size=16))
    event = {"data": {"type": "stored", "token_ids": tokens(1), "block_hashes": [*range(1, 9)]}}
    both.events(Events("vllm-prefill-1", [event]))
    (tenant,) = both.query(asked(block_size=16)).values()
    assert {n: i.longest_matched for n, i in tenant.items()} == {"vllm-prefill-1": 128}


def test_a_model_or_tenant_that_neither_knows_is_not_found() -> None:
    for fields in ({"model": "x"}, {"tenant_id": "x"}):
        with pytest.raises(NotFound):
            conductor().query(asked(**fields))


def test_block_sizes_are_bounded() -> None:
    both = conductor()
    for size in range(1, MAX_BLOCK_SIZES):
        both.register(registered(instance=f"i{size}", block_size=size))
    with pytest.raises(Malformed, match="block_size"):
        both.register(registered(instance="last", block_size=999))


def test_events_of_another_model_than_the_registered_are_refused() -> None:
    both = conductor()
    both.register(registered())
    event = {"data": {"type": "cleared"}}
    with pytest.raises(Malformed, match="registered for the model m"):
        both.events(Events("vllm-prefill-1", [event], model_name="other"))


def test_posts_of_further_ranks_are_of_the_model_of_the_first() -> None:
    both = conductor()
    both.register(registered(tenant_id="acme"))
    event = {"dp_rank": 5, "data": {"type": "stored", "token_ids": tokens(1), "block_hashes": [9]}}
    both.events(Events("vllm-prefill-1", [event]))
    (tenant,) = both.query(asked(tenant_id="acme")).values()
    assert list(tenant["vllm-prefill-1"].ranks) == ["5"]


def test_workers_tell_of_the_fleet_too() -> None:
    both = conductor()
    both.register(registered())
    names = [worker["instance_id"] for worker in workers(both)["workers"]]
    assert names == ["vllm-prefill-1", "pod"]
    assert list(faults(both)) == []
