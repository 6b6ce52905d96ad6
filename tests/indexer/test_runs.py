"""Runs: stores that are taken in together leave the index as they would one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from indexer.block import Holder
from indexer.events import (
    AllBlocksCleared,
    BlockRemoved,
    BlockStored,
    Event,
    joined,
)
from indexer.hashing import pack
from indexer.index import BlockIndex
from indexer.ledger import Ledger
from indexer.prefix_index import PrefixIndex
from indexer.runs import LARGE_BYTES, Run
from tests.indexer import make
from tests.indexer.make import BASE, E1, E2

MODEL = "tiny"
HOLDERS = (E1, E2)


class Noting(Ledger):
    """A ledger that notes how many blocks each store had that it took in."""

    def __init__(self) -> None:
        index = PrefixIndex(16)
        super().__init__(E1, index.blocks, index._guesses)
        self.taken: list[int] = []

    def apply(self, event: Event, model: str) -> None:
        if isinstance(event, BlockStored):
            self.taken.append(len(event.names))
        super().apply(event, model)


def chained(count: int, first: int = 1, parent: int | None = None) -> list[BlockStored]:
    """One-block stores, of which each goes on where the one before it ends."""
    stores = []
    for name in range(first, first + count):
        stores.append(make.store_event([name], make.prompt(1, 16 * name), parent))
        parent = name
    return stores


def taken(stores: Sequence[BlockStored], *, ends: bool = True) -> list[int]:
    ledger, run = Noting(), Run()
    ledger.apply(make.store_event([900], make.prompt(1, 9000)), MODEL)  # of the usual kind
    ledger.taken.clear()
    for store in stores:
        run.add(store, ledger, MODEL)
    if ends:
        run.end()
    return ledger.taken


def test_what_goes_on_is_taken_in_as_one_store() -> None:
    assert taken(chained(5)) == [5]


def test_nothing_is_taken_in_before_the_run_ends() -> None:
    assert taken(chained(5), ends=False) == []


def test_what_starts_anew_ends_the_run() -> None:
    assert taken([*chained(2), *chained(3, first=10)]) == [2, 3]


def test_a_large_store_is_taken_in_by_itself() -> None:
    large = LARGE_BYTES // 64
    store = make.store_event(range(2, 2 + large), make.prompt(large), 1)
    assert taken([*chained(1), store, *chained(1, 100, large + 1)], ends=False) == [1, large]


def test_another_ledgers_store_ends_it() -> None:
    first, second, run = Noting(), Noting(), Run()
    run.add(chained(1)[0], first, MODEL)
    run.add(chained(2)[1], second, MODEL)
    assert (first.taken, second.taken) == ([1], [])


def test_a_run_behind_an_unknown_parent_is_taken_in_one_by_one() -> None:
    assert taken(chained(3, parent=77)) == [1, 1, 1]


@pytest.mark.parametrize(
    "fields",
    [
        {"tier": "cpu"},
        {"block_size": 32},
        {"group": 1},
        {"media": {0: ["m"]}},
        {"remote": True},
        {"settled": True},
        {"contents": [1]},
        {"tokens": b""},
        {"parent": None},
        {"parent": 5},
    ],
    ids=str,
)
def test_only_what_a_single_store_would_say_goes_on(fields: dict[str, Any]) -> None:
    before, store = chained(2)
    assert store.goes_on(before)
    given: dict[str, Any] = {"names": [2], "parent": 1, "tokens": store.tokens, "block_size": 16}
    assert not BlockStored(**{**given, **fields}).goes_on(before)


def test_the_first_store_tells_whose_the_joined_one_is() -> None:
    first = BlockStored([1], None, pack(make.prompt(1)), 16, lora="sql", salt="s")
    rest = BlockStored([2], 1, pack(make.prompt(1, 16)), 16)
    whole = BlockStored([1, 2], None, pack(make.prompt(2)), 16, lora="sql", salt="s")
    assert joined([first, rest]) == whole


# -- the law ------------------------------------------------------------------------------------

names = st.integers(1, 6)
tiers = st.sampled_from(["gpu", "gpu", "gpu", "cpu"])
sizes = st.sampled_from([16, 16, 16, 16, 32, 8])


@st.composite
def stores(draw: st.DrawFn) -> list[BlockStored]:
    """One or several, most of which go on where the one before ends."""
    tier, size = draw(tiers), draw(sizes)
    group = draw(st.sampled_from([None, None, None, 0]))
    parent = draw(st.none() | names)
    salt = draw(st.sampled_from([None, None, "s"]))
    told = []
    for _ in range(draw(st.integers(1, 4))):
        called = draw(st.lists(names, min_size=1, max_size=2))
        ids = [draw(st.integers(0, 1)) for _ in called for _ in range(1)]
        tokens = pack(token for start in ids for token in range(start, start + size))
        told.append(BlockStored(called, parent, tokens, size, tier, salt=salt, group=group))
        parent = draw(st.sampled_from([called[-1], called[-1], called[-1], None]))
    return told


removals = st.builds(
    lambda names, tier: [BlockRemoved(names, tier)], st.lists(names, min_size=1, max_size=3), tiers
)
clears = st.just([AllBlocksCleared()])
told = st.tuples(
    st.sampled_from(HOLDERS), st.one_of(stores(), stores(), stores(), removals, clears)
)


def known(index: PrefixIndex) -> object:
    """All there is to know of an index, and of what its ledgers left out."""
    blocks = index.blocks
    tables = {(s.tier, s.unit, s.group): s.table for s in blocks.shelves if s.table}
    states = [index.state(holder) for holder in HOLDERS]
    return tables, _kept(blocks), states, index.stats()


def _kept(blocks: BlockIndex) -> object:
    holdings = {
        holder: (held.own, [c for c in held.repeats.values() if c], held.doubled)
        for holder, held in blocks._holdings.items()
    }
    return blocks._names.shared, blocks._names.aliased, holdings


def opened(index_bytes: int | None) -> PrefixIndex:
    """An index that expects some blocks, and has not much room."""
    index = PrefixIndex(16, index_bytes=index_bytes)
    lookup = index.match([BASE], pack([*range(16), *range(1, 17)]), 0.0)
    index.guess(lookup, E2, 10.0)
    return index


@settings(deadline=None)
@given(st.lists(told, max_size=12), st.sampled_from([None, 1300]))
def test_together_or_one_by_one_is_the_same(
    history: list[tuple[Holder, list[Event]]], index_bytes: int | None
) -> None:
    together, alone = opened(index_bytes), opened(index_bytes)
    run = Run()
    for holder, events in history:
        for event in events:
            alone.ledger(holder).apply(event, MODEL)
            if isinstance(event, BlockStored):
                run.add(event, together.ledger(holder), MODEL)
            else:
                run.end()
                together.ledger(holder).apply(event, MODEL)
    run.end()
    assert known(together) == known(alone)
