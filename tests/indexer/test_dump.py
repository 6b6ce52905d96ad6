"""Out of an index and into another one: the same matches, and the same answers to what follows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from indexer import dump
from indexer.block import Holder
from indexer.index import BlockIndex
from tests.indexer import make
from tests.indexer.make import E1, E2, E3

HOLDERS = (E1, E2, E3)


def copied(index: BlockIndex, holders: Sequence[Holder] = HOLDERS) -> BlockIndex:
    taken = dump.copy(index, holders)
    other = BlockIndex(index.block_size, index.count_repeats)
    at = dict(enumerate(taken.holders))
    for rows in dump.rows(taken):
        assert dump.load(other, at, rows)
    return other


def told(index: BlockIndex) -> object:
    prompts = [make.chains(make.prompt(6, start)) for start in (0, 1000)]
    return [index.match(chains) for chains in prompts], [index.blocks(h) for h in HOLDERS]


def test_names_and_copies_come_along() -> None:
    index = BlockIndex(16)
    chains = make.chains(make.prompt(3))
    index.store(E1, "gpu", [1, 2, 3], chains)
    index.store(E1, "gpu", [3], chains[2:])
    index.store(E2, "gpu", [7, 8], chains[:2])  # other names for the same
    index.store(E2, "cpu", [7], chains[:1])
    other = copied(index)
    for each in (index, other):
        assert each.remove(E1, "gpu", [3]) == []
        assert each.remove(E1, "gpu", [3]) == chains[2:]
        assert each.remove(E2, "gpu", [1, 7]) == chains[:1]
        assert each.resolve(E2, 8) == chains[1]
    assert told(index) == told(other)


def test_large_blocks_stay_whole() -> None:
    index = BlockIndex(16)
    index.store(E1, "cpu", [1, 2], make.chains(make.prompt(6)))
    other = copied(index)
    assert told(other) == told(index)
    other.remove(E1, "cpu", [2])
    assert other.match(make.chains(make.prompt(6)))[E1].blocks == 3


def test_only_the_holders_that_are_asked_for_are_copied() -> None:
    index = BlockIndex(16)
    for holder in HOLDERS:
        index.store(holder, "gpu", [1, 2], make.chains(make.prompt(2)))
    index.clear(E3)
    other = copied(index, [E2, E3])
    assert set(other.match(make.chains(make.prompt(2)))) == {E2}


def test_a_copy_is_of_one_moment() -> None:
    index = BlockIndex(16)
    chains = make.chains(make.prompt(2))
    index.store(E1, "gpu", [1, 2], chains)
    taken = dump.copy(index, [E1])
    index.remove(E1, "gpu", [1, 2])
    held, called = dump.rows(taken)
    assert isinstance(called, dump.Called)
    assert isinstance(held, dump.Held)
    assert len(called.names) == len(called.chains) == len(held.chains) == 16


def test_a_group_beside_the_prefix_comes_along() -> None:
    index = BlockIndex(16)
    chains = make.chains(make.prompt(2))
    index.store(E1, "gpu", [1, 2], chains)
    index.store(E1, "gpu", [1, 2], chains, group=1)
    other = copied(index)
    for each in (index, other):
        assert each.remove(E1, "gpu", [1], group=1) == chains[:1]
        assert each.blocks(E1) == {"gpu": 2}
    assert other.sizes() == index.sizes()


def test_who_was_heard_of_meanwhile_keeps_its_names() -> None:
    chains = make.chains(make.prompt(3))
    index = BlockIndex(16)
    index.store(E1, "gpu", [1, 2, 3], chains)
    other = BlockIndex(16)
    other.store(E2, "gpu", [1, 9], [chains[1], chains[2]])
    taken = dump.copy(index, [E1])
    for row in dump.rows(taken):
        assert dump.load(other, {0: E1}, row)
    assert [other.resolve(E1, name) for name in (1, 2, 3)] == chains
    assert [other.resolve(E2, name) for name in (1, 9)] == chains[1:]
    assert other.remove(E1, "gpu", [1, 2, 3]) == chains
    assert other.remove(E2, "gpu", [1, 9]) == chains[1:]
    assert not other.match(chains)


class Act(NamedTuple):
    """One event: what, by whom, where, which block, and the first of the names it uses."""

    what: str
    holder: Holder
    tier: str
    group: int | None
    block: int
    offset: int


_ACTS = st.lists(
    st.builds(
        Act,
        st.sampled_from(["store", "remove"]),
        st.sampled_from(HOLDERS),
        st.sampled_from(["gpu", "cpu"]),
        st.sampled_from([None, 1]),
        st.integers(0, 5),
        st.sampled_from([0, 100]),
    ),
    max_size=40,
)

Known = Counter[tuple[Holder, str, int | None, int]]
"""Who holds how many copies of what it calls by a name, in a tier and group."""


@settings(deadline=None, max_examples=300)
@given(_ACTS, _ACTS, st.booleans())
def test_the_copy_behaves_like_the_original(
    before: list[Act], after: list[Act], counts: bool
) -> None:
    chains = make.chains(make.prompt(6))

    def act(index: BlockIndex, acts: list[Act], known: Known) -> None:
        """An engine removes only what it announced, under the name that it gave it."""
        for what, holder, tier, group, block, offset in acts:
            name = offset + block
            key = holder, tier, group, name
            if what == "store":
                index.store(holder, tier, [name], [chains[block]], group)
                known[key] = known[key] + 1 if counts else 1
            elif known[key]:
                known[key] -= 1
                index.remove(holder, tier, [name], group)

    index = BlockIndex(16, counts)
    known: Known = Counter()
    act(index, before, known)
    other = copied(index)
    assert told(other) == told(index)
    left = known.copy()
    act(index, after, known)
    act(other, after, left)
    assert told(other) == told(index)
    for each in (index, other):
        for (holder, tier, group, name), count in left.items():
            for _ in range(count):
                each.remove(holder, tier, [name], group)
    assert told(other) == told(index)
