"""The byte budget: it is kept, what remains are prefixes, and room that is made is used."""

from __future__ import annotations

import random
import tracemalloc
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.block import Holder
from indexer.budget import ENTRY_BYTES, STORED_BYTES, Budget, bytes_of
from indexer.events import Reason
from indexer.feed import Source
from indexer.hashing import pack
from indexer.index import BlockIndex
from indexer.prefix_index import PrefixIndex
from tests.indexer import make
from tests.indexer.hybrid_engine import name_of
from tests.indexer.make import BASE, E1, E2

ROOM_FOR_10 = 10 * STORED_BYTES


class Fleet:
    """Two endpoints, the second with two ranks, on an index with a budget."""

    def __init__(self, **budget: Any) -> None:
        self.index = PrefixIndex(16, **budget)
        holders = (E1, E2, Holder(E2.address, 1))
        self.feeds = {h: self.index.open(Source(h, "tcp://x", base_model="tiny")) for h in holders}

    def tell(self, holder: Holder, event: object) -> None:
        feed = self.feeds[holder]
        last = feed.stats.last_seq
        feed.receive(make.frames(0 if last is None else last + 1, event), 1.0)

    def store(self, tokens: Sequence[int], holder: Holder = E1, start: int = 0, **kw: int) -> None:
        size = kw.get("block_size", 16)
        names = [name_of(tokens[:end]) for end in range(start + size, len(tokens) + 1, size)]
        parent = name_of(tokens[:start]) if start else None
        self.tell(holder, make.stored(names, tokens[start:], parent, **kw))

    def blocks(self, tokens: Sequence[int], holder: Holder = E1) -> int:
        match = self.index.match([BASE], pack(tokens), 0.0).matches.get(holder)
        return match.blocks if match else 0


@pytest.mark.parametrize("bound", ["index_bytes", "index_bytes_per_endpoint"])
def test_what_does_not_fit_is_the_tail(bound: str) -> None:
    fleet = Fleet(**{bound: ROOM_FOR_10})
    fleet.store(make.prompt(8))
    fleet.store(make.prompt(30), start=8 * 16)
    held = fleet.blocks(make.prompt(30))
    assert 10 <= held < 25
    fleet.store(make.prompt(40), start=30 * 16)
    state = fleet.index.state(E1)
    assert state.dropped_blocks == 40 - held
    assert state.rejected == {Reason.OVER_BUDGET: 40 - held}
    assert state.parked_blocks == 0
    assert state.bytes <= ROOM_FOR_10
    assert fleet.index.stats().bytes <= ROOM_FOR_10


def test_what_an_engine_removes_makes_room() -> None:
    fleet = Fleet(index_bytes=ROOM_FOR_10)
    first, second = make.prompt(20), make.prompt(20, 9999)
    fleet.store(first)
    fleet.store(second)
    assert fleet.blocks(second) < 5
    fleet.tell(E1, make.removed([name_of(first[:end]) for end in range(16, 321, 16)]))
    fleet.store(second)
    assert fleet.blocks(second) >= 7
    fleet.tell(E1, make.CLEARED)
    assert fleet.index.state(E1).dropped_blocks == 0


def test_the_ranks_of_an_endpoint_share_its_bytes_and_other_endpoints_have_their_own() -> None:
    fleet = Fleet(index_bytes_per_endpoint=ROOM_FOR_10)
    other_rank = Holder(E2.address, 1)
    fleet.store(make.prompt(30), E2)
    fleet.store(make.prompt(30, 5000), other_rank)
    fleet.store(make.prompt(30), E1)
    assert fleet.blocks(make.prompt(30, 5000), other_rank) < 10
    assert fleet.blocks(make.prompt(30), E1) == fleet.blocks(make.prompt(30), E2) >= 10


def test_repeated_stores_stay_within_the_bounds() -> None:
    fleet = Fleet(index_bytes=ROOM_FOR_10)
    fleet.store(make.prompt(30))
    held = fleet.blocks(make.prompt(30))
    for _ in range(5):
        fleet.store(make.prompt(30))
    assert fleet.blocks(make.prompt(30)) >= held
    assert fleet.index.stats().bytes <= ROOM_FOR_10


def test_pieces_and_claims_count() -> None:
    fleet = Fleet(index_bytes=ROOM_FOR_10)
    fleet.store(make.prompt(30), block_size=4)
    assert 1 <= fleet.blocks(make.prompt(30)) < 10
    assert fleet.index.state(E1).rejected == {Reason.OVER_BUDGET: 1}
    assert fleet.index.stats().bytes <= ROOM_FOR_10 + max(ENTRY_BYTES.values())
    fleet = Fleet(index_bytes=ROOM_FOR_10)
    fleet.tell(E1, make.stored(group_idx=0, kv_cache_spec_kind="full_attention"))
    window = make.stored(range(100, 200), [], group_idx=1, kv_cache_spec_kind="mamba")
    fleet.tell(E1, window)
    assert fleet.index.state(E1).rejected[Reason.OVER_BUDGET] > 80


@pytest.mark.parametrize("bound", ["index_bytes", "index_bytes_per_endpoint"])
def test_stores_that_wait_for_their_parent_count(bound: str) -> None:
    fleet = Fleet(**{bound: ROOM_FOR_10})
    for start in range(1, 21):
        fleet.store(make.prompt(2, 1000 * start), start=16)
        assert fleet.index.state(E1).bytes <= ROOM_FOR_10
    state = fleet.index.state(E1)
    assert 0 < state.parked_blocks < 20
    assert state.parked_blocks == fleet.index.stats().sizes["parked"]
    assert state.rejected == {Reason.OVER_BUDGET: 20 - state.parked_blocks}
    fleet.tell(E1, make.CLEARED)
    assert fleet.index.stats().bytes == 0


@pytest.mark.parametrize("names", [1, 64])
def test_what_waits_takes_no_more_than_is_counted(names: int) -> None:
    fleet = Fleet()
    told = [
        make.frames(seq, make.stored([seq << 32 | n for n in range(names)], parent=seq << 40 | 1))
        for seq in range(1, 6400 // names)
    ]
    tracemalloc.start()
    try:
        for message in told:
            fleet.feeds[E1].receive(message, 1.0)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert fleet.index.state(E1).parked_blocks > 6000
    assert taken < fleet.index.stats().bytes


def test_without_a_budget_everything_is_taken() -> None:
    fleet = Fleet()
    fleet.store(make.prompt(2000))
    assert fleet.blocks(make.prompt(2000)) == 2000


PROMPTS = st.lists(st.integers(0, 2), min_size=1, max_size=12)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 12), st.integers(0, 12), st.data())
def test_the_budget_is_kept_and_what_remains_are_prefixes(
    blocks: int, of_each: int, data: st.DataObject
) -> None:
    total, each = blocks * STORED_BYTES, of_each * STORED_BYTES
    fleet = Fleet(index_bytes=total, index_bytes_per_endpoint=each)
    told: dict[Holder, set[tuple[int, ...]]] = {holder: set() for holder in fleet.feeds}
    for _ in range(data.draw(st.integers(1, 10))):
        holder = data.draw(st.sampled_from(sorted(fleet.feeds)))
        kinds = data.draw(PROMPTS)
        fleet.store([kind for kind in kinds for _ in range(16)], holder)
        told[holder] |= {tuple(kinds[: end + 1]) for end in range(len(kinds))}
        assert fleet.index.stats().bytes <= total
        assert all(fleet.index.state(one).bytes <= each for one in fleet.feeds)
    for holder, prefixes in told.items():
        index = fleet.index._index
        held = {prefix for prefix in prefixes if _holds(index, holder, prefix)}
        for prefix in held:
            assert len(prefix) == 1 or prefix[:-1] in held
            assert fleet.blocks([k for k in prefix for _ in range(16)], holder) == len(prefix)


def _holds(index: BlockIndex, holder: Holder, kinds: tuple[int, ...]) -> bool:
    return index.resolve(holder, name_of([k for k in kinds for _ in range(16)])) is not None


def test_the_figures_are_about_what_python_takes() -> None:
    rng = random.Random(3)
    index = BlockIndex(16)
    tracemalloc.start()
    try:
        for _ in range(5000):
            names, chains = ([rng.getrandbits(64) for _ in range(8)] for _ in range(2))
            index.store(E1, "gpu", names, chains)
        taken = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.5 * index.bytes() < taken < index.bytes()
    assert index.bytes() == index.bytes(E1.address) == bytes_of(index.sizes())


def test_bytes_are_counted_again_only_when_what_was_spare_is_used_up() -> None:
    counted: list[str | None] = []

    def taken(address: str | None) -> int:
        counted.append(address)
        return 0

    budget = Budget(ROOM_FOR_10)
    assert not budget.fits(1)
    assert budget.room(4, taken, "a") == 4
    assert budget.fits(6)
    assert not budget.fits(1)
    assert counted == [None]
    budget = Budget(ROOM_FOR_10, ROOM_FOR_10)
    assert budget.room(4, taken, "a") == 4
    assert not budget.fits(1)
