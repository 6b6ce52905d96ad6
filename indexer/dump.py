"""Dump: what some holders have in a `BlockIndex`, out of it and back into another one.

Taking a copy is quick and done at one moment; turning the copy into rows takes long and may be done
elsewhere. Names and copies are told apart: a block has its names in all tiers, but a number of
copies in each. What a holder's `Outline` has is not repeated here.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from indexer.block import Holder
from indexer.budget import bytes_of
from indexer.holders import single_bits
from indexer.index import BlockIndex


class Called(msgspec.Struct, frozen=True, tag=True):
    """What blocks are called, by the same holders.

    Attributes:
        holders: By whom, by position in the list of holders.
        names: 8 bytes each, little-endian.
        chains: The chain hash of each, likewise.
        own: Whether others may mean something else by these names, or call the blocks otherwise.
        alone: Whether these holders do not use the name that others have in common for it.
        doubled: Whether the blocks have had a second name.
    """

    holders: Sequence[int]
    names: bytes
    chains: bytes
    own: bool = False
    alone: bool = False
    doubled: bool = False


class Held(msgspec.Struct, frozen=True, tag=True):
    """Blocks that the same holders have in the same place.

    Attributes:
        tier: Where they lie.
        unit: Blocks of the index per block.
        group: Number of a KV cache group beside that of the prefix.
        holders: Who has them, by position in the list of holders.
        chains: Chain hashes, 8 bytes each, little-endian.
        copies: Times they have each of them, beyond those of rows before.
    """

    tier: str
    unit: int
    group: int | None
    holders: Sequence[int]
    chains: bytes
    copies: int = 1


Rows = Called | Held


class _Share(msgspec.Struct):
    bit: int
    own: dict[int, int]
    doubled: set[int]
    repeats: list[tuple[int, dict[int, int]]]


class _Table(msgspec.Struct):
    tier: str
    unit: int
    group: int | None
    masks: dict[int, int]


class Copy(msgspec.Struct):
    """What the index held at one moment, for `rows`.

    Attributes:
        holders: Whose blocks it has.
    """

    holders: Sequence[Holder]
    tables: list[_Table]
    shared: dict[int, int]
    aliased: dict[int, int]
    shares: list[_Share]


def copy(index: BlockIndex, holders: Collection[Holder]) -> Copy:
    """Of what these holders have; those who have nothing are left out."""
    held = {h: index._holdings[h] for h in holders if h in index._holdings}
    shelves = list(index.shelves)
    return Copy(
        holders=list(held),
        tables=[_Table(s.tier, s.unit, s.group, dict(s.table)) for s in shelves],
        shared=dict(index._names.shared),
        aliased=dict(index._names.aliased),
        shares=[
            _Share(
                holding.bit,
                dict(holding.own),
                set(holding.doubled),
                [(shelves.index(s), dict(counts)) for s, counts in holding.repeats.items()],
            )
            for holding in held.values()
        ],
    )


def rows(taken: Copy) -> Iterator[Rows]:
    """All that was copied, in the order in which `load` takes it."""
    positions = {share.bit: position for position, share in enumerate(taken.shares)}
    ours = sum(positions)
    present: dict[int, int] = defaultdict(int)
    for table in taken.tables:
        groups: dict[int, list[int]] = defaultdict(list)
        for chain, mask in table.masks.items():
            if mask & ours:
                groups[mask & ours].append(chain)
                present[chain] |= mask & ours
        for mask, chains in groups.items():
            yield _held(table, _at(mask, positions), chains)
    for position, share in enumerate(taken.shares):
        for number, counts in share.repeats:
            by_count: dict[int, list[int]] = defaultdict(list)
            for chain, count in counts.items():
                by_count[count].append(chain)
            for count, chains in by_count.items():
                yield _held(taken.tables[number], [position], chains, count)
    yield from _called(taken, positions, present)


def load(index: BlockIndex, holders: Mapping[int, Holder], row: Rows) -> bool:
    """Put a row into an index, for the holders at these positions; False if not all had room.

    They have nothing there yet that did not come from rows before.
    """
    fits = True
    restored = sum(index.bits.find(holder) for holder in holders.values())
    for holder in (holders[position] for position in row.holders if position in holders):
        if isinstance(row, Called):
            _load_called(index, holder, row, restored)
        else:
            fits &= _load_held(index, holder, row)
    return fits


def _load_held(index: BlockIndex, holder: Holder, row: Held) -> bool:
    if not index.shelves.admits(row.tier, row.unit, row.group):
        return False
    holding, shelf = index._holding(holder), index.shelves.get(row.tier, row.unit, row.group)
    chains = _numbers(row.chains)
    room = index._budget.room(len(chains), lambda of: _bytes_to_be(index, of), holder.address)
    for chain in chains[:room]:
        for _ in range(row.copies):
            holding.add(shelf, chain)
    return room == len(chains)


def _bytes_to_be(index: BlockIndex, address: str | None) -> int:
    """What the index takes once the blocks loaded so far have their names."""
    if address is not None:
        return index.bytes(address)
    sizes = index.sizes()
    sizes["names"] = max(sizes["names"], sizes["blocks"] - sizes["own_names"])
    return bytes_of(sizes)


def _load_called(index: BlockIndex, holder: Holder, row: Called, restored: int) -> None:
    """`restored` is the mask of all holders that are loaded."""
    holding, names = index._holding(holder), index._names
    for name, chain in zip(_numbers(row.names), _numbers(row.chains), strict=True):
        present = index.shelves.present(chain)
        if not present & holding.bit:
            continue  # there was no room for the block
        if row.doubled:
            holding.doubled.add(chain)
        if row.own:
            holding.own[name] = chain
            if row.alone:
                names.aliased[chain] = names.aliased.get(chain, 0) | holding.bit
        elif name not in names.shared and not present & ~restored:
            names.shared[name] = chain
        elif names.shared.get(name) != chain:
            # Others were heard of meanwhile. That the holder still counts as one who uses the
            # common name keeps that name longer than need be, which harms nothing.
            holding.own[name] = chain


def _called(
    taken: Copy, positions: Mapping[int, int], present: Mapping[int, int]
) -> Iterator[Called]:
    common: dict[tuple[int, bool], list[tuple[int, int]]] = defaultdict(list)
    ours = sum(positions)
    for name, chain in taken.shared.items():
        callers = present.get(chain, 0) & ours & ~taken.aliased.get(chain, 0)
        doubled = sum(share.bit for share in taken.shares if chain in share.doubled) & callers
        for mask in (callers & ~doubled, doubled):
            if mask:
                common[mask, mask == doubled].append((name, chain))
    for (mask, twice), pairs in common.items():
        yield Called(_at(mask, positions), *_columns(pairs), doubled=twice)
    for position, share in enumerate(taken.shares):
        own: dict[tuple[bool, bool], list[tuple[int, int]]] = defaultdict(list)
        for name, chain in share.own.items():
            if present.get(chain, 0) & share.bit:
                alone = bool(taken.aliased.get(chain, 0) & share.bit)
                own[alone, chain in share.doubled].append((name, chain))
        for (alone, twice), pairs in own.items():
            yield Called([position], *_columns(pairs), own=True, alone=alone, doubled=twice)


def _held(table: _Table, holders: Sequence[int], chains: Sequence[int], copies: int = 1) -> Held:
    return Held(table.tier, table.unit, table.group, holders, _packed(chains), copies)


def _at(mask: int, positions: Mapping[int, int]) -> list[int]:
    return [positions[bit] for bit in single_bits(mask)]


def _columns(pairs: Iterable[tuple[int, int]]) -> tuple[bytes, bytes]:
    names, chains = zip(*pairs, strict=True)
    return _packed(names), _packed(chains)


def _packed(numbers: Sequence[int]) -> bytes:
    return np.array(numbers, "<u8").tobytes()


def _numbers(packed: bytes) -> list[int]:
    numbers: list[int] = np.frombuffer(packed, "<u8").tolist()
    return numbers
